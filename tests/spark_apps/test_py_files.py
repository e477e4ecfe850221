"""What Spark's executors import comes out of the zip that `--py-files` ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.errors import Unavailable
from deploy.roles.package import build_zip
from deploy.setup.jars import spark_connector_jars
from deploy.setup.java import java_home

JOB = """
import json, sys
from spark_apps.session.session import open_session
from spark_apps.settings import StreamsSettings

def judge(batches):
    import ingest.normalise, alarm.rules
    import pyarrow
    for batch in batches:
        names = [ingest.normalise.__file__, alarm.rules.__file__]
        yield pyarrow.RecordBatch.from_pydict({"name": names, "rows": [batch.num_rows] * 2})

spark = open_session(StreamsSettings(jars=sys.argv[1], py_files=sys.argv[2]), 1)
rows = spark.range(0, 10, 1, 2).mapInArrow(judge, "name string, rows long").collect()
print("FOUND", json.dumps([[row.name, row.rows] for row in rows]))
spark.stop()
"""


@pytest.mark.java
@pytest.mark.slow
def test_workers_import_the_packages_from_the_zip_and_work_with_them(tmp_path: Path) -> None:
    """Away from the repository, where only the zip has them before what is installed."""
    try:
        jars = ":".join(map(str, spark_connector_jars()))
    except Unavailable as missing:
        pytest.skip(str(missing))
    packages = build_zip(tmp_path / "packages.zip")
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "job.py", jars, str(packages)], cwd=tmp_path, timeout=110,
        capture_output=True, text=True, check=False,
        env={**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": ""},
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert found, done.stderr[-3000:]
    rows = json.loads(found[0].removeprefix("FOUND "))
    assert sum(count for _, count in rows) == 2 * 10
    assert [name for name, _ in rows if "packages.zip" not in Path(name).parts] == []
