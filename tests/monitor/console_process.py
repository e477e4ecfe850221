"""Runs the console as `deploy` does, for the browser: `console_process.py PORT BOOTSTRAP DATA_DIR NOW_MS MIRROR`."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

from console_city import ListedAlarms, alarms, incidents  # noqa: E402

from alarm import face_search  # noqa: E402
from alarm.dispatch.reader import OperationsReader  # noqa: E402
from alarm.face_search import face_piece  # noqa: E402
from alarm.lists.base_tables import tables_folder  # noqa: E402
from alarm.lists.stored_list_reader import StoredListReader  # noqa: E402
from alarm.lists.uploaded_list import import_uploaded  # noqa: E402
from alarm.preview import preview_piece  # noqa: E402
from bus.domain.feature_models import FeatureSettings  # noqa: E402
from bus.domain.policy import NO_POLICY, PolicySettings  # noqa: E402
from bus.settings import BusSettings, SiteSettings  # noqa: E402
from deploy.supervisor.state_file import supervised  # noqa: E402
from ingest.pictures.store import PictureStore  # noqa: E402
from ingest.store.open import open_store  # noqa: E402
from monitor.console.pages import faces  # noqa: E402
from monitor.ports import AlarmReader  # noqa: E402
from monitor.serve import serve  # noqa: E402
from monitor.settings import ConsoleSettings  # noqa: E402

port, bootstrap, data_dir, now_ms, mirror, has_policy, most_faces = sys.argv[1:8]
if int(most_faces):
    face_search.PIECE_ROWS = faces.MOST_READ = int(most_faces)
listed, told = alarms(int(now_ms)), incidents(int(now_ms))
operations = Path(data_dir) / "store" / "operations.db"  # there, where a dispatcher runs beside it


def open_alarms() -> AlarmReader:
    """What a dispatcher has stored, or made-up lists."""
    return OperationsReader(operations) if operations.exists() else ListedAlarms(listed, told)


asyncio.run(
    serve(
        SiteSettings(data_dir=data_dir),
        BusSettings(bootstrap_servers=bootstrap),
        ConsoleSettings(port=int(port), mirror=mirror),
        open_records=lambda: open_store(f"sqlite://{data_dir}/store/records.db"),
        open_alarms=open_alarms,
        read_picture=PictureStore(f"{data_dir}/pictures", "").serve,
        preview_rule=preview_piece,
        open_lists=lambda: StoredListReader(
            BusSettings(bootstrap_servers=bootstrap), tables_folder(SiteSettings(data_dir=data_dir))
        ),
        import_list=partial(
            import_uploaded, SiteSettings(data_dir=data_dir), BusSettings(bootstrap_servers=bootstrap),
            FeatureSettings().table(),
        ),
        find_faces=face_piece,
        read_processes=lambda: supervised(Path(data_dir)),
        policy=PolicySettings() if has_policy else NO_POLICY,
    )
)
