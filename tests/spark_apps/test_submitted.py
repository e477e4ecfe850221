"""Under a real `spark-submit` the operator's words reach the session and win over ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.distributed.spark import spark_home
from deploy.paths import PROJECT_ROOT
from deploy.setup.java import java_home

JOB = """
import json
from spark_apps.session.session import open_session
from spark_apps.settings import StreamsSettings

settings = StreamsSettings(conf={"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "5"})
session = open_session(settings, 1)
print("FOUND", json.dumps(dict(session.sparkContext.getConf().getAll())))
session.stop()
"""


@pytest.mark.java
@pytest.mark.slow
def test_the_operators_words_win_over_ours_under_spark_submit(tmp_path: Path) -> None:
    """The command's over those in `spark-defaults.conf` over our settings over what we would take."""
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.ui.enabled false\nspark.cores.max 2\n", encoding="utf-8"
    )
    words = ["--master", "local[3]", "--name", "mine", "--conf", "spark.cores.max=1",
             "--conf", "spark.ui.port=0"]  # fmt: skip
    done = subprocess.run(
        [spark_home() / "bin" / "spark-submit", *words, tmp_path / "job.py"],
        cwd=tmp_path, timeout=110, capture_output=True, text=True, check=False,
        env={**os.environ, "JAVA_HOME": str(java_home()), "SPARK_HOME": str(spark_home()),
             "SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1",
             "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT_ROOT)},
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert found, done.stderr[-3000:]
    conf = json.loads(found[0].removeprefix("FOUND "))
    assert conf["spark.master"] == "local[3]"
    assert conf["spark.app.name"] == "mine"
    assert conf["spark.cores.max"] == "1"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.sql.shuffle.partitions"] == "5"
    assert conf["spark.sql.adaptive.enabled"] == "false", "ours, where nobody said anything"
