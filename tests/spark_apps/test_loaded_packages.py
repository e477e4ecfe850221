"""What a driver loads beside what it uses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.setup.java import java_home

READS_BY_ARROW = """
import sys

import pytest
from spark_apps.session.session import open_session
from spark_apps.settings import StreamsSettings
session = open_session(StreamsSettings(master="local[1]"), 1)
print(session.range(3).toArrow().num_rows, "pandas" in sys.modules)
session.stop()
"""


@pytest.mark.java
@pytest.mark.slow
def test_a_driver_that_has_read_a_batch_has_loaded_no_pandas() -> None:
    """What broke: Spark's converters of numpy loaded its testing package at the first list that was
    handed to Java, and with it pandas."""
    done = subprocess.run(
        [sys.executable, "-c", READS_BY_ARROW], timeout=110, capture_output=True, text=True,
        check=True, env={**os.environ, "JAVA_HOME": str(java_home())},
    )  # fmt: skip
    assert done.stdout.split() == ["3", "False"]
