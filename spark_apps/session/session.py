"""The Spark session of one driver, tuned for many small batches on few cores.

Settings measured in docs/decisions/0021-micro-batches.md carry the reason beside them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType

from py4j.protocol import INPUT_CONVERTER
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from bus.files.file_modes import OTHERS_MASK
from spark_apps.session.job_failures import failure_of
from spark_apps.session.retry import SPARK_ERRORS, text_of
from spark_apps.settings import StreamsSettings

MIN_SLOTS = 4
ARROW_BYTES = 16 << 20  # of records on their way between Java and Python; a task has a few of them
_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_FILE_SYSTEM = "com.globalmentor.apache.hadoop.fs.NakedLocalFileSystem"
_FILE_SYSTEM_JAR = "hadoop-bare-naked-local-fs"
JARS_VARIABLE = "DATABUS_SPARK_JARS"
SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""`spark-submit` has started the JVM and tells us by this where it is."""
DEFAULT_MASTER, SUBMITTED_FILE = "local[*]", "driver.py"
MALLOC_ARENAS = "2"
"""Of the JVM; glibc makes eight a core, and each of 280 threads leaves pages in one."""

_SECRET_KEYS = "(?i)secret|password|token|access[.]?key|jaas|keystore|private key"
"""Whose key or value has one of these is shown by Spark's pages, event log and plans as redacted:
Spark's own words, and those of Kafka's client."""
_SECRET_TEXTS = (
    '(?is)password="(?:[^"\\\\]++|\\\\.)*+"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END'
)
"""The same within the text of a plan."""
SUBMIT_VARIABLE = "PYSPARK_SUBMIT_ARGS"
"""The words with which pyspark starts the JVM."""

EMPTY: Mapping[str, str] = MappingProxyType({})
_WITH_PAGES = MappingProxyType(
    {
        # Beside Spark's own pages: /metrics/prometheus and /metrics/executors/prometheus.
        "spark.ui.prometheus.enabled": "true",
        "spark.metrics.conf.*.sink.prometheusServlet.class":
            "org.apache.spark.metrics.sink.PrometheusServlet",
        "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
        "spark.sql.streaming.metricsEnabled": "true",
    }
)  # fmt: skip
_WITHOUT_PAGES = MappingProxyType(
    {
        # Spark keeps jobs, stages and plans for its pages, also where it shows none: of a thousand
        # executions each, which at six batches a second is three minutes' worth of the heap.
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "10",
    }
)


class SessionError(Exception):
    """The session cannot be made as configured."""


def slots(queries: int) -> int:
    """Task slots of a local master: two per query, never below `MIN_SLOTS`."""
    return max(MIN_SLOTS, 2 * queries)


def connector_jars(settings: StreamsSettings, environment: Mapping[str, str]) -> list[str]:
    """The connector's jars, from the settings or the environment. Raises `SessionError`."""
    named = settings.jars or environment.get(JARS_VARIABLE, "")
    jars = [jar for jar in named.split(":") if jar]
    missing = [jar for jar in jars if "://" not in jar and not os.path.isfile(jar)]
    if missing:
        raise SessionError(f"jars of Spark's Kafka connector are missing: {', '.join(missing)}")
    return jars


def submitted(environment: Mapping[str, str]) -> dict[str, str]:
    """What the operator said to `spark-submit`: `--conf`, `--master` and the like, and
    `spark-defaults.conf`. Nothing where we start the JVM ourselves."""
    if SUBMITTED_VARIABLE not in environment:
        return {}
    SparkContext._ensure_initialized()  # a `SparkConf` before that does not know the JVM's
    return operators_words(dict(SparkConf().getAll()))


def _submit_words(properties_file: str, environment: Mapping[str, str]) -> str:
    """With the file's name, not with what it holds. Raises `SessionError` where others read it."""
    try:
        mode = os.stat(properties_file).st_mode
    except OSError as error:
        what = f"streams.properties_file: {properties_file}: {error.strerror}"
        raise SessionError(what) from error
    if mode & OTHERS_MASK:
        raise SessionError(
            f"streams.properties_file: {properties_file} is open to others of this machine; say"
            f" chmod 600 {properties_file}"
        )
    before = environment.get(SUBMIT_VARIABLE, "pyspark-shell")
    return f"--properties-file {shlex.quote(properties_file)} {before}"


def operators_words(known: Mapping[str, str]) -> dict[str, str]:
    """Without what `spark-submit` says where the operator said nothing. Pure."""
    chosen = {key: value for key, value in known.items() if value}
    default = {"spark.master": DEFAULT_MASTER, "spark.app.name": SUBMITTED_FILE}
    return {key: value for key, value in chosen.items() if default.get(key) != value}


def configuration(
    settings: StreamsSettings,
    jars: list[str],
    queries: int,
    given: Mapping[str, str] = EMPTY,
    properties: Mapping[str, str] = EMPTY,
) -> dict[str, str]:
    """Spark's configuration in Spark's own names. What the operator has said wins: `given` to
    `spark-submit` over `[streams.conf]` over ours. `properties`: system properties of every
    JVM."""
    chosen = {**settings.conf, **given}
    master = chosen.get("spark.master") or settings.wanted_master or f"local[{slots(queries)}]"
    pages = _WITH_PAGES if chosen.get("spark.ui.enabled", "").lower() == "true" else _WITHOUT_PAGES
    own = _own_configuration(settings, jars, master, properties)
    return {**own, **pages, **chosen}


def _own_configuration(
    settings: StreamsSettings, jars: list[str], master: str, properties: Mapping[str, str]
) -> dict[str, str]:
    defined = [f"-D{name}={value}" for name, value in properties.items()]
    local = master.startswith("local")
    conf = {
        "spark.app.name": "surveillance-data-bus",
        "spark.master": master,
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        # The checkpoint is disposable: no checksum files beside its logs. Without Hadoop's native
        # library every file costs processes (`chmod`, `stat`): 78 ms by the default manager.
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.hadoop.fs.file.impl": _file_system(jars, local),
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        # So often a query without records asks for the ends of its topics; by default after 10 ms.
        "spark.sql.streaming.pollingDelay": "40ms",
        # Each batch is a new plan of a few columns: to write, compile and load Java for it costs
        # more than to interpret it (decision 0089).
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
        "spark.driver.extraJavaOptions": " ".join([*defined, java_options(settings)]),
        # Passwords and keys of the bus travel as options of the source.
        "spark.redaction.regex": _SECRET_KEYS,
        "spark.sql.redaction.string.regex": _SECRET_TEXTS,
    }
    if jars:
        # On one machine the class path itself: a class that Spark's own loader finds in a jar is
        # never in Java's archive (ADR 0022), and no jar is copied to an executor that is us.
        where = "spark.driver.extraClassPath" if local else "spark.jars"
        conf[where] = (":" if local else ",").join(jars)
    if settings.py_files:
        conf["spark.submit.pyFiles"] = settings.py_files
    if not local:
        conf["spark.executor.extraJavaOptions"] = " ".join([*defined, *_OF_EXECUTORS])
    if local:
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf


def _file_system(jars: list[str], local: bool) -> str:
    """Hadoop's own starts `chmod` for each file it makes, two a batch; the bought one asks Java.

    `spark-submit` on a cluster needs a file system before it has our jars.
    """
    bought = local and any(_FILE_SYSTEM_JAR in jar for jar in jars)
    return _FILE_SYSTEM if bought else "org.apache.hadoop.fs.RawLocalFileSystem"


def java_options(settings: StreamsSettings) -> str:
    """All options of the driver's JVM in one string: Spark takes the key once, the last wins."""
    return " ".join(filter(None, [_own_options(), settings.java_options]))


def _own_options() -> str:
    """Each with its reason; measured in decisions 0021 and 0088."""
    reasons = {
        "-XX:+UseSerialGC": "one small heap on few shared cores: least overhead, fewest threads",
        "-Xmn128m": "else a third of the heap, all of it touched before a collection",
        "-XX:SurvivorRatio=4": "what a batch holds must fit there, or it fills the old generation",
        "-Xms256m": "the old generation begins with 128 MB and grows by what is alive in it",
        "-XX:MinHeapFreeRatio=20": "some 150 MB live there, and a megabyte a minute is added",
        "-XX:MaxHeapFreeRatio=40": "the same, where a start or a backlog has needed more",
        "-XX:TieredStopAtLevel=1": "short batches: the second compiler costs more than it wins",
        "-XX:ReservedCodeCacheSize=64m": "with 48, as is usual, 47 are in use after five minutes",
        "-Xss4m": "Spark searches long error texts with regular expressions; they need a stack",
        "-Djdk.lang.Process.launchMechanism=VFORK": "no helper process before each `chmod`",
        "-XX:-UsePerfData": "no file is written for tools that are never attached",
    }
    return " ".join(reasons)


_OF_EXECUTORS = {
    "-XX:+UseSerialGC": "one or two cores, and batches that are soon garbage",
    "-XX:TieredStopAtLevel=1": "as in the driver: each batch is a new plan, compiled again",
    "-XX:-UsePerfData": "no file is written for tools that are never attached",
}
"""Options of an executor's JVM, each with its reason; measured in decision 0045."""


def open_session(
    settings: StreamsSettings, queries: int, properties: Mapping[str, str] = EMPTY
) -> SparkSession:
    """Start (or join, under spark-submit) the session; `properties` as in `configuration`. Raises
    `SessionError`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("MALLOC_ARENA_MAX", MALLOC_ARENAS)
    if settings.properties_file and SUBMITTED_VARIABLE not in os.environ:
        os.environ[SUBMIT_VARIABLE] = _submit_words(settings.properties_file, os.environ)
    jars = connector_jars(settings, os.environ)
    conf = configuration(settings, jars, queries, submitted(os.environ), properties)
    if conf["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    _pass_no_numpy()
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    check_versions(session, settings)
    return session


def _pass_no_numpy() -> None:
    """Nothing of numpy is handed to Java. Spark's converters of it would load Spark's testing
    package at the first list that is, to see whether there is numpy, and with it pandas: 36 MB."""
    of_numpy = (NumpyArrayConverter, NumpyScalarConverter)
    INPUT_CONVERTER[:] = [one for one in INPUT_CONVERTER if not isinstance(one, of_numpy)]


def slots_now(session: SparkSession) -> int:
    """Of all executors that have reported by now: a cluster's come one after the other."""
    return int(session.sparkContext.defaultParallelism)


def end_java(timeout_s: float) -> bool:
    """End the JVM that `open_session` started and wait for it; False if it did not end in time.

    It would end with us anyway, but what it writes at its end needs it to be waited for.
    """
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return True  # never started, or another process's (spark-submit)
    gateway.shutdown()
    process.stdin.close()
    try:
        return bool(process.wait(timeout_s) == 0)
    except subprocess.TimeoutExpired:
        return False


def check_versions(session: SparkSession, settings: StreamsSettings) -> None:
    """Executors must run the driver's Python minor version. Raises `SessionError`."""
    local = session.sparkContext.master.startswith("local")
    if local and settings.work_in == "driver":
        return  # no other Python is ever started
    try:
        session.sparkContext.parallelize([0], 1).map(lambda one: one).collect()
    except SPARK_ERRORS as error:
        # Spark itself compares the versions before it runs anything of ours.
        failure = failure_of(text_of(error))
        if failure is None:
            raise
        raise SessionError(failure.sentence) from error
