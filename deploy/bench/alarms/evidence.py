"""How long a package of evidence takes: twenty records of a plate, each with its picture.

In: nothing. Out: seconds from the question to the console until the whole file is there, the median
of some. Never: a part of the product replaced; a package whose pictures are missing.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
import zipfile
from contextlib import closing
from pathlib import Path

import httpx

from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.bench.ingest.product import NO_POLICY_FLAGS
from deploy.bench.targets import broker_flags, role, wait_for_port
from deploy.errors import OperatorError
from deploy.servers.process import free_port
from deploy.topics import make_topics
from ingest.pictures.store import PictureStore
from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch
from monitor.accounts.one_time_links import issue_one_time_link

EVIDENCE = "alarms-evidence"
NAMES = (EVIDENCE,)
RECORDS, PICTURE_BYTES = 20, 300_000
PACKAGES, READY_S = 7, 60.0
PLATE = "浙A12345"


def evidence_figures() -> dict[str, float]:
    """One run, with a broker and a console of its own."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as name:
        folder, broker_port, port = Path(name), free_port(), free_port()
        flags = [*broker_flags(broker_port, free_port()), f"console.port={port}", *NO_POLICY_FLAGS]
        _store(folder)
        with role("broker", folder, flags) as broker:
            wait_for_port(broker, broker_port, folder)
            make_topics(BusSettings(bootstrap_servers=f"127.0.0.1:{broker_port}"))
            with role("console", folder, flags) as console:
                wait_for_port(console, port, folder)
                return {EVIDENCE: _median_s(folder, port)}


def _store(folder: Path) -> None:
    """Records and pictures, as ingest and an edge leave them."""
    pictures = PictureStore((folder / "pictures").as_uri(), "http://edge:8650")
    at_ms, rows = now_ms(), []
    for number in range(RECORDS):
        picture = f"2026/{number:03d}.jpg"
        pictures.put(picture, os.urandom(PICTURE_BYTES))
        url = f"http://edge:8650/pictures/{picture}"
        body = {"车牌号码": PLATE, "卡口编号": "c1", "全景图片地址": url}
        rows.append(RecordRow(
            record_id=f"bench-{number}", kind="vehicle", checkpoint_id="c1", district_id="d1",
            camera_ip="10.0.0.1", recognizer_ip="", captured_at_ms=at_ms - number * 60_000,
            received_at_ms=at_ms, plate_number=PLATE, plate_key=PLATE, picture_url=url,
            body=json.dumps(body, ensure_ascii=False).encode(),
        ))  # fmt: skip
    path = folder / "store" / "records.db"
    path.parent.mkdir(parents=True)
    with closing(open_store(f"sqlite://{path}", "write")) as store:
        store.apply(StoreBatch(rows=rows), [])


def _median_s(folder: Path, port: int) -> float:
    took: list[float] = []
    base = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=base, timeout=READY_S, trust_env=False) as client:
        client.get(issue_one_time_link(folder, base_url=""))
        for _ in range(PACKAGES):
            begun_s = time.monotonic()
            answer = client.get("/api/evidence/records", params={"plate": PLATE, "language": "en"})
            took.append(time.monotonic() - begun_s)
            if answer.status_code != 200:
                raise OperatorError(f"no evidence: {answer.status_code} {answer.text[:200]}")
            with zipfile.ZipFile(io.BytesIO(answer.content)) as package:
                packed = [name for name in package.namelist() if name.startswith("pictures/")]
            if len(packed) != RECORDS:
                raise OperatorError(f"{len(packed)} of {RECORDS} pictures are in the package")
    return sorted(took)[PACKAGES // 2]
