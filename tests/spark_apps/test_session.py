"""What Spark is configured with, before any session."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from spark_apps.session import session
from spark_apps.session.session import (
    JARS_VARIABLE,
    SessionError,
    configuration,
    connector_jars,
    operators_words,
    slots,
)
from spark_apps.settings import StreamsSettings


def test_a_local_master_has_never_less_than_four_slots() -> None:
    """One query needs four, four need eight."""
    assert [slots(n) for n in (1, 2, 4)] == [4, 4, 8]
    assert configuration(StreamsSettings(), [], 3)["spark.master"] == "local[6]"


def test_another_master_is_left_its_addresses() -> None:
    """Loopback would hide the driver from its executors."""
    conf = configuration(StreamsSettings(master="spark://host:7077"), ["a.jar"], 4)
    assert conf["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in conf
    assert conf["spark.jars"] == "a.jar"


def test_jars_come_from_settings_or_environment(tmp_path: Path) -> None:
    """The settings win."""
    first, second = tmp_path / "a.jar", tmp_path / "b.jar"
    first.touch()
    second.touch()
    environment = {JARS_VARIABLE: f"{first}:{second}"}
    assert connector_jars(StreamsSettings(), environment) == [str(first), str(second)]
    assert connector_jars(StreamsSettings(jars=str(second)), environment) == [str(second)]


def test_a_missing_jar_is_named() -> None:
    """Spark's own message would come ten seconds later and from Java."""
    with pytest.raises(SessionError, match=r"/nowhere/x\.jar"):
        connector_jars(StreamsSettings(jars="/nowhere/x.jar"), {})


def test_every_option_of_the_jvm_is_in_the_one_key() -> None:
    """Spark takes `extraJavaOptions` once: given twice, the first would be lost."""
    options = configuration(StreamsSettings(java_options="-Da=1 -Db=2"), [], 1)
    words = options["spark.driver.extraJavaOptions"].split()
    assert {"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss4m", "-Da=1", "-Db=2"} <= set(words)


def test_what_no_page_shows_is_not_kept_for_one() -> None:
    """A thousand plans and jobs were, in the heap of every driver; an operator's pages have them."""
    kept = "spark.sql.ui.retainedExecutions"
    assert int(configuration(StreamsSettings(), [], 4)[kept]) < 100
    assert kept not in configuration(StreamsSettings(conf={"spark.ui.enabled": "true"}), [], 4)
    own = StreamsSettings(conf={kept: "7"})
    assert configuration(own, [], 4)[kept] == "7"


def test_executors_of_a_cluster_get_options_and_those_of_one_machine_are_the_driver() -> None:
    key = "spark.executor.extraJavaOptions"
    on_a_cluster = StreamsSettings(master="spark://h:7077")
    assert "-XX:TieredStopAtLevel=1" in configuration(on_a_cluster, [], 2)[key].split()
    assert key not in configuration(StreamsSettings(), [], 2)
    said = StreamsSettings(master="spark://h:7077", conf={key: "-Xlog:gc"})
    assert configuration(said, [], 2)[key] == "-Xlog:gc"


def test_on_one_machine_the_connector_is_on_the_class_path() -> None:
    """Only there Java can keep its classes in an archive (ADR 0022)."""
    conf = configuration(StreamsSettings(), ["a.jar", "b.jar"], 1)
    assert conf["spark.driver.extraClassPath"] == "a.jar:b.jar"
    assert "spark.jars" not in conf


def test_checkpoints_have_no_checksum_files() -> None:
    """The setting once vanished into a comment; each file costs time at every batch."""
    assert configuration(StreamsSettings(), [], 1)[
        "spark.sql.streaming.checkpoint.fileChecksum.enabled"
    ] == "false"  # fmt: skip


def test_the_operators_words_win_over_ours() -> None:
    """Those to `spark-submit` over those in our settings over our own; the rest stays ours."""
    settings = StreamsSettings(
        master="spark://a:7077", conf={"spark.ui.enabled": "true", "spark.cores.max": "3"}
    )
    conf = configuration(settings, [], 1, {"spark.master": "yarn", "spark.cores.max": "2"})
    assert conf["spark.master"] == "yarn"
    assert conf["spark.cores.max"] == "2"
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.sql.adaptive.enabled"] == "false"
    assert "spark.driver.host" not in conf, "the loopback would hide the driver from executors"


def test_what_spark_submit_says_by_itself_is_nobodys_word() -> None:
    """Without `--master` and `--name` it says `local[*]` and the file's name."""
    known = {"spark.master": "local[*]", "spark.app.name": "driver.py", "spark.jars": "",
             "spark.executor.memory": "2g"}  # fmt: skip
    assert operators_words(known) == {"spark.executor.memory": "2g"}
    conf = configuration(StreamsSettings(master="spark://a:7077"), [], 1, operators_words(known))
    assert conf["spark.master"] == "spark://a:7077"
    assert operators_words({"spark.master": "local[3]"}) == {"spark.master": "local[3]"}


def test_what_is_between_java_and_python_is_bounded_by_bytes() -> None:
    """Without it a task's 50,000 records of 512 KiB are one piece."""
    conf = configuration(StreamsSettings(), [], 1)
    assert conf["spark.sql.execution.arrow.maxBytesPerBatch"] == str(16 << 20)


@pytest.mark.parametrize(
    "key",
    ["spark.authenticate.secret", "spark.ssl.rpc.keyPassword", "spark.hadoop.fs.s3a.access.key",
     "spark.org.apache.spark.ui.JWSFilter.param.secretKey", "spark.hadoop.my.TOKEN"],
)  # fmt: skip
def test_a_secret_of_spark_is_refused_where_it_would_be_on_a_command_line(key: str) -> None:
    with pytest.raises(ValueError, match=rf"^conf: {re.escape(key)} .* properties_file"):
        StreamsSettings(conf={key: "hunter2"})
    StreamsSettings(conf={"spark.authenticate.secretBitLength": "256", "spark.cores.max": "2"})


def test_java_is_told_the_place_of_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "of spark.conf"
    with pytest.raises(SessionError, match=r"of spark\.conf: No such file"):
        session._submit_words(str(path), {})
    path.write_text("spark.authenticate.secret hunter2\n", encoding="ascii")
    path.chmod(0o640)
    with pytest.raises(SessionError, match=r"chmod 600 .*of spark\.conf$"):
        session._submit_words(str(path), {})
    path.chmod(0o600)
    words = session._submit_words(str(path), {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"})
    assert shlex.split(words) == ["--properties-file", str(path), "--verbose", "pyspark-shell"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("kafka.sasl.jaas.config", 'a.ScramLoginModule required username="u" password="p";'),
     ("kafka.ssl.keystore.key", "-----BEGIN PRIVATE KEY-----"), ("spark.authenticate.secret", "s"),
     ("kafka.sasl.oauthbearer.client.credentials.client.secret", "s"), ("other", "-----BEGIN ENCRYPTED PRIVATE KEY-----")],
)  # fmt: skip
def test_what_logs_in_is_redacted_by_its_key_or_its_value(key: str, value: str) -> None:
    redacted = configuration(StreamsSettings(), [], 1)["spark.redaction.regex"]
    assert re.search(redacted, key) or re.search(redacted, value)
    assert not re.search(redacted, "kafka.bootstrap.servers")
    assert not re.search(redacted, "subscribe")


def test_within_a_plan_passwords_and_keys_are_redacted_and_nothing_else() -> None:
    text = configuration(StreamsSettings(), [], 1)["spark.sql.redaction.string.regex"]
    plan = 'a [username="u" password="with \\" and ;"], b -----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----, c'
    assert re.sub(text, "*", plan) == 'a [username="u" *], b * PRIVATE KEY-----, c'
