"""What Spark says of a failed job becomes a sentence that says what to do."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkRuntimeError

from spark_apps.session.job_failures import FULL_DISK, LOST, JobFailed, failure_of
from spark_apps.session.retry import retry_job

PYTHON = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker"
    " has different version: 3.9 than that in driver: 3.11, PySpark cannot run with different"
)
AWAY = (
    "Job aborted due to stage failure: Task 3 in stage 2.0 failed 4 times\nTraceback\n"
    "ingest.store.port.StoreUnavailable: HBase at a:9090: timed out\n\n\tat java"
)
SAID = [
    (PYTHON, False, "the driver runs Python 3.11, the executors run 3.9: "),
    (AWAY, True, "the store is away: HBase at a:9090: timed out"),
    ("java.io.IOException: No space left on device", True, FULL_DISK),
    ("OSError: [Errno 28] No space left on device", True, FULL_DISK),
    ("(ExecutorLostFailure (executor 1 exited", True, LOST),
    ("ResultStage 5 has failed the maximum allowable number of times: 4", True, LOST),
    ("spark_apps.tasks.broadcast.UnreadableVersion: a worker cannot", False, "a worker cannot"),
    ("bus.errors.BusError: NOT_ENOUGH_REPLICAS: few", True, "the bus refuses"),
    ("bus.errors.BusError: MESSAGE_TOO_LARGE: x", False, "the bus refuses"),
    ("spark_apps.publish.publisher.DeliveryFailed: 3 messages", True, "the bus takes nothing"),
    ("Job 7 cancelled because SparkContext was shut down: FetchFailed", False, "Spark has ended"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "passing", "sentence"), SAID)
def test_a_reason_is_known_by_what_spark_says(text: str, passing: bool, sentence: str) -> None:
    found = failure_of(text)
    assert found is not None
    assert found.passing is passing
    assert found.sentence.startswith(sentence)


@given(st.text() | st.sampled_from([text for text, _, _ in SAID]).flatmap(
    lambda text: st.integers(0, len(text)).map(lambda at: text[at:] + text[:at])
))  # fmt: skip
def test_any_text_has_a_sentence_of_one_line_or_none(text: str) -> None:
    found = failure_of(text)
    assert found is None or (found.sentence and "\n" not in found.sentence)


def test_a_job_is_run_again_until_what_failed_it_has_passed() -> None:
    """A text of Java is no exception of Spark's Python: it once ended the driver."""
    texts = iter([AWAY, "java.io.IOException: No space left on device"])

    def job() -> int:
        for text in texts:
            raise OSError(text)
        return 7

    assert retry_job(job, _NoPause(), "a batch") == 7


@pytest.mark.parametrize("text", [PYTHON, "spark_apps.tasks.broadcast.UnreadableVersion: a worker"])
def test_what_does_not_pass_is_said_at_once(text: str) -> None:
    def job() -> None:
        raise PySparkRuntimeError(text)

    with pytest.raises(JobFailed, match=r"Python 3|a worker"):
        retry_job(job, threading.Event(), "a batch")


def test_what_nobody_foresaw_is_raised_as_it_is() -> None:
    def job() -> None:
        raise OSError("another")

    with pytest.raises(OSError, match="another"):
        retry_job(job, threading.Event(), "a batch")


class _NoPause(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return False
