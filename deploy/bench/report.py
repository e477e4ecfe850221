"""What is measured and what it must reach; and how runs become one line of the table.

In: samples of a figure. Out: medians, ratios, verdicts. Never: running anything.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row: `must` and `aim` are ratios to Kafka where `compared`, else values in `unit`. Of a
    figure of the `worst` no median counts: its title says so."""

    name: str
    title: str
    unit: str
    must: float
    aim: float
    compared: bool
    less_is_better: bool = False
    worst: bool = False


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one figure, in its unit; `kafka` is empty where nothing is compared."""

    figure: str
    ours: Sequence[float]
    kafka: Sequence[float] = ()


class ReportRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: medians, their ratio, and whether must and aim are reached; and the
    runs behind it, each as it was."""

    figure: Figure
    runs: int
    ours: float
    kafka: float | None
    ratio: float | None
    must_met: bool
    aim_met: bool
    ours_runs: Sequence[float] = ()
    kafka_runs: Sequence[float] = ()


CAMERAS = (
    ("cameras-500", "500 cameras × 5 records/s, one a request, acks=all"),
    ("cameras-4000", "4,000 cameras × 0.5 records/s, one a request, acks=all"),
)

_ONE, _CITY = "one machine", "a city's servers"

INGEST = (
    *(
        Figure(name=f"ingest-{name}", title=f"{where}, {title}", unit="s", must=must, aim=aim,
               compared=False, less_is_better=True)
        for name, where, title, must, aim in (
            ("a-stored-500", _ONE, "500/s: captured → commit seen, p99", 0.3, 0.2),
            ("a-stored-1000", _ONE, "1,000/s: captured → commit seen, p99", 0.6, 0.3),
            ("b-start", _CITY, "command → first record stored", 90, 45),
            ("b-first-stored", _CITY, "first two minutes, 100/s: captured → commit seen, p99",
             3, 1.5),
            ("b-first-alarm", _CITY, "the same: captured → on event.alarm, p99", 2, 0.8),
            ("b-stored-100-p50", _CITY, "then, 100/s: captured → commit seen, p50", 0.4, 0.2),
            ("b-stored-100", _CITY, "the same, p99", 0.9, 0.4),
            ("b-stored-500", _CITY, "500/s: captured → commit seen, p99", 1.5, 0.8),
            ("b-stored-1000", _CITY, "1,000/s: captured → commit seen, p99", 3, 1.5),
            ("a-alarm-500-p50", _ONE, "500/s: captured → on event.alarm, p50", 0.3, 0.15),
            ("a-alarm-500-p99", _ONE, "500/s: captured → on event.alarm, p99", 0.5, 0.25),
            ("a-alarm-1000-p50", _ONE, "1,000/s: captured → on event.alarm, p50", 0.3, 0.15),
            ("a-alarm-1000-p99", _ONE, "1,000/s: captured → on event.alarm, p99", 0.5, 0.25),
            ("b-alarm-500-p50", _CITY, "500/s: captured → on event.alarm, p50", 0.3, 0.12),
            ("b-alarm-500-p99", _CITY, "500/s: captured → on event.alarm, p99", 0.7, 0.3),
            ("b-alarm-1000-p50", _CITY, "1,000/s: captured → on event.alarm, p50", 0.5, 0.2),
            ("b-alarm-1000-p99", _CITY, "1,000/s: captured → on event.alarm, p99", 0.9, 0.5),
            ("gap-1", _ONE, "kill -9 of the driver: longest time between alarms", 15, 8),
            ("gap-2", _ONE, "the same with a second watch list beside it", 1, 0.3),
        )
    ),
    *(
        Figure(name=f"ingest-b-{name}", title=f"{_CITY}: {title}", unit=unit, must=must, aim=aim,
               compared=False, less_is_better=True)
        for name, title, unit, must, aim in (
            ("idle", "CPU of all drivers and executors that have nothing to do", "cores",
             0.25, 0.08),
            ("batch-ingest", "CPU of a batch of one record, ingest and store", "s", 0.25, 0.08),
            ("batch-watchlist", "CPU of a batch of one record, watch list", "s", 0.1, 0.03),
        )
    ),
    Figure(name="ingest-a-backlog", title=f"{_ONE}: catch-up of 1 M records in SQLite",
           unit="records/s", must=25_000, aim=40_000, compared=False),
    Figure(name="ingest-b-backlog", title=f"{_CITY}: catch-up of 1 M records in HBase",
           unit="records/s", must=8_000, aim=15_000, compared=False),
    Figure(name="ingest-executors-share", unit="%", must=30, aim=40, compared=False,
           title="two executors: records of the one that read fewer"),
    Figure(name="ingest-executors-driver", unit="%", must=20, aim=10, compared=False,
           less_is_better=True,
           title="two executors: driver's Python of the CPU of driver and executors"),
    Figure(name="ingest-executors-cpu", unit="× one", must=1.15, aim=1.05, compared=False,
           less_is_better=True, title="two executors: CPU per record beside one executor"),
    Figure(name="ingest-executors-us", unit="µs", must=1_000, aim=500, compared=False,
           less_is_better=True, title="two executors: CPU per record of driver and executors"),
    Figure(name="ingest-regions-us", unit="µs", must=500, aim=250, compared=False,
           less_is_better=True, title="the same: CPU per record of region and Thrift servers"),
    Figure(name="ingest-executors-held", unit="× one", must=1, aim=1.7, compared=False,
           title="two executors, each held to 0.2 core: records/s beside one"),
    Figure(name="ingest-plate-a", title="this plate, 30 days, in 10 M records (SQLite), p99",
           unit="ms", must=50, aim=5, compared=False, less_is_better=True),
    Figure(name="ingest-store-bytes", title="bytes of a record in HBase, one copy", unit="B",
           must=3_000, aim=1_500, compared=False, less_is_better=True),
    Figure(name="ingest-plate-b", title="this plate, 30 days, in 1 M records (HBase), p99",
           unit="ms", must=100, aim=30, compared=False, less_is_better=True),
    Figure(name="ingest-memory", title=f"{_ONE}: memory of the driver after an hour at 500/s",
           unit="MB", must=1_000, aim=800, compared=False, less_is_better=True),
    Figure(name="ingest-memory-growth", title=f"{_ONE}: the same beside minute 10",
           unit="× minute 10", must=1.05, aim=1.02, compared=False, less_is_better=True),
    Figure(name="ingest-edge", title="edge: records/s acknowledged after fsync, 50 connections",
           unit="records/s", must=3_000, aim=8_000, compared=False),
    Figure(name="ingest-edge-us", title="edge at 3,000 records/s: its CPU per record", unit="µs",
           must=300, aim=120, compared=False, less_is_better=True),
    Figure(name="ingest-edge-p99", title="edge at 3,000 records/s: p99 of an answer", unit="ms",
           must=100, aim=30, compared=False, less_is_better=True),
    Figure(name="ingest-register", unit="s", must=1.0, aim=0.5, compared=False, less_is_better=True,
           title="register of 10,000 devices after 1,000 edits: a start has read it"),
    Figure(name="ingest-topic-made-anew", unit="s", must=10, aim=3, compared=False,
           title=f"{_ONE}, data.vehicle deleted and made anew: its first record → stored",
           less_is_better=True),
    *(
        Figure(name=f"ingest-broker-{victim}-{kind}", unit="s", must=0.8, aim=0.3, compared=False,
               title=f"three brokers ({title}), kill -9 of {whom}: longest time between alarms, "
               "the worst run", less_is_better=True, worst=True)
        for kind, title in (("kraft", "KRaft"), ("zookeeper", "ZooKeeper"))
        for victim, whom in (
            ("leader", "the leader of event.alarm"),
            ("coordinator", "the dispatcher's coordinator"),
            ("controller", "the controller"),
        )
    ),
    *(
        Figure(name=f"ingest-fault-{name}", unit="× before", must=1.2, aim=1.0, compared=False,
               title=f"{_ONE}, two drivers: captured → on event.alarm, p99 while {what}",
               less_is_better=True)
        for name, what in (
            ("driver", "the driver of ingest is dead"),
            ("disk", "the record store's disk is full"),
            ("hbase", "HBase is dead"),
        )
    ),
)  # fmt: skip

CLEANER = (
    Figure(name="cleaner-plain", title="1 GB of 1 KiB records, 10 % live: cleaned", unit="MB/s",
           must=0.4, aim=0.8, compared=True),
    Figure(name="cleaner-zstd", title="the same, zstd", unit="MB/s", must=0.4, aim=0.8,
           compared=True),
    Figure(name="cleaner-offsets", title="100-byte records, each a batch, 1 % live: cleaned",
           unit="records/s", must=0.3, aim=0.6, compared=True),
    Figure(name="cleaner-memory", title="the cleaner's own memory with a buffer of 128 MiB",
           unit="MB", must=174, aim=174, compared=False, less_is_better=True),
    Figure(name="cleaner-ack", title="produce ack p99 while 2 GB are cleaned", unit="× without",
           must=1.3, aim=1.1, compared=False, less_is_better=True),
    Figure(name="cleaner-broker-memory", title="the same: what the broker's process has more",
           unit="MB", must=10, aim=10, compared=False, less_is_better=True),
    Figure(name="cleaner-load", title="a group partition of 200,000 live keys: loaded",
           unit="s", must=3, aim=1, compared=False, less_is_better=True),
    Figure(name="cleaner-load-piece", title="the same: the loop held at a time, by CPU time",
           unit="ms", must=5, aim=5, compared=False, less_is_better=True),
    Figure(name="cleaner-swap-piece", title="500 segments planned and swapped: the same",
           unit="ms", must=1, aim=1, compared=False, less_is_better=True),
    Figure(name="cleaner-month-offsets", unit="MB", must=64, aim=64, compared=False,
           title="30 days, 20 commits/s (virtual time): __consumer_offsets at most",
           less_is_better=True),
    Figure(name="cleaner-month-tables", unit="MiB", must=4, aim=4, compared=False,
           title="the same: the largest control topic, beyond three times what lives in it",
           less_is_better=True),
    Figure(name="cleaner-month-start", unit="× day one", must=1.1, aim=1.1, compared=False,
           title="the same: CPU of reading all of them at a start", less_is_better=True),
    Figure(name="cleaner-month-cpu", unit="s", must=300, aim=300, compared=False,
           title="the same: CPU of this bench, which writes and cleans all of it",
           less_is_better=True),
)  # fmt: skip

FUZZY = (
    Figure(name="fuzzy-us", unit="µs", must=40, aim=15, compared=False, less_is_better=True,
           title="10,000 fuzzy rules: message bytes → candidates, a record's CPU"),
    Figure(name="fuzzy-us-growth", unit="×", must=1.3, aim=1.3, compared=False,
           title="the same with 100,000, beside 10,000", less_is_better=True),
    Figure(name="fuzzy-recall", unit="points", must=0, aim=10, compared=False,
           title="misread targets: recall at 10 false alarms per 10⁶, beyond plain distance"),
    Figure(name="fuzzy-recall-low", unit="points", must=0, aim=10, compared=False,
           title="the same: lower end of the 95 % interval of five seeds"),
)  # fmt: skip

ALARMS = (
    Figure(name="alarms-list-import", unit="s", must=20, aim=5, compared=False, less_is_better=True,
           title="a file of a million plates → in force, in the hands of a reader"),
    Figure(name="alarms-list-broken", unit="s", must=20, aim=5, compared=False, less_is_better=True,
           title="the same, every other line wrong → in force, and the report"),
    Figure(name="alarms-list-records", unit="records", must=120, aim=120, compared=False,
           less_is_better=True, title="a million plates on the topic"),
    Figure(name="alarms-list-mb", unit="MB", must=15, aim=15, compared=False, less_is_better=True,
           title="the same: keys and values"),
    Figure(name="alarms-list-line", unit="s", must=0.5, aim=0.2, compared=False,
           less_is_better=True, title="one changed line of a million → in force, median"),
    Figure(name="alarms-us", unit="µs", must=40, aim=15, compared=False, less_is_better=True,
           title="message bytes → candidates, a record's CPU: a million-plate list with look-alikes"
           ", 10,000 wildcards, 10,000 fuzzy plates"),
    Figure(name="alarms-us-growth", unit="×", must=1.3, aim=1.3, compared=False,
           less_is_better=True, title="the same with ten times the wildcards and fuzzy plates"),
    Figure(name="alarms-list-machine", unit="MB", must=200, aim=64, compared=False,
           less_is_better=True, title="memory of the million-plate list: a machine"),
    Figure(name="alarms-list-worker", unit="MB", must=20, aim=5, compared=False,
           less_is_better=True, title="the same: each further process"),
    Figure(name="alarms-verdict", unit="ms", must=1, aim=1, compared=False, less_is_better=True,
           title="the last word on an alarm of that list, a verdict's CPU"),
    Figure(name="alarms-faces-batch", unit="ms", must=3, aim=2, compared=False, less_is_better=True,
           title="100,000 faces of 512 floats, one BLAS thread: message bytes → candidates, a"
           " record's CPU in batches of 50"),
    Figure(name="alarms-faces-alone", unit="ms", must=25, aim=12, compared=False,
           less_is_better=True, title="the same, a record alone"),
    Figure(name="alarms-faces-machine", unit="MB", must=260, aim=260, compared=False,
           less_is_better=True, title="memory of that gallery: a machine"),
    Figure(name="alarms-screen", unit="ms", must=100, aim=30, compared=False, less_is_better=True,
           title="an alarm sent to event.alarm → shown in each of 50 open pages, p95"),
    Figure(name="alarms-answer-p50", unit="ms", must=500, aim=200, compared=False,
           less_is_better=True, title="an operator takes an alarm → the decider's answer, p50"),
    Figure(name="alarms-answer-p99", unit="ms", must=500, aim=200, compared=False,
           less_is_better=True, title="the same, p99"),
    Figure(name="alarms-rules-p50", unit="s", must=0.3, aim=0.12, compared=False,
           less_is_better=True,
           title=f"{_ONE}, 1,000/s, 10,000 rules: captured → on event.alarm, p50"),
    Figure(name="alarms-rules-p99", unit="s", must=0.5, aim=0.25, compared=False,
           less_is_better=True, title="the same, p99"),
    Figure(name="alarms-rules-city-p50", unit="s", must=0.5, aim=0.25, compared=False,
           less_is_better=True, title=f"{_CITY}, 10,000 rules: captured → on event.alarm, p50"),
    Figure(name="alarms-rules-city-p99", unit="s", must=0.9, aim=0.5, compared=False,
           less_is_better=True, title="the same, p99"),
    Figure(name="alarms-rules-city-rate", unit="records/s", must=200, aim=200, compared=False,
           title="the same: records a second"),
    Figure(name="alarms-preview", unit="s", must=5, aim=1, compared=False, less_is_better=True,
           title="preview of a pattern over 7 days of 30 with 10 M records (SQLite)"),
    Figure(name="alarms-search", unit="ms", must=300, aim=50, compared=False, less_is_better=True,
           title="the same store: a search for *345, the first page, p99"),
    Figure(name="alarms-search-near", unit="ms", must=300, aim=50, compared=False,
           less_is_better=True,
           title="the same store: a plate of which one character may differ, the first page, p99"),
    Figure(name="alarms-evidence", unit="s", must=2, aim=0.5, compared=False, less_is_better=True,
           title="evidence of 20 records with their pictures, asked of the console"),
)  # fmt: skip

SECURITY = (
    Figure(name="security-produce", title="TLS: produce, 16 KiB batches, Kafka's own program",
           unit="MB/s", must=1.0, aim=1.5, compared=True),
    Figure(name="security-produce-cpu", title="the same: broker's CPU per MB", unit="ms",
           must=1.0, aim=0.67, compared=True, less_is_better=True),
    Figure(name="security-consume", title="TLS: consume, Kafka's own program", unit="MB/s",
           must=0.8, aim=1.2, compared=True),
    Figure(name="security-consume-cpu", title="the same: broker's CPU per MB", unit="ms",
           must=1.25, aim=0.83, compared=True, less_is_better=True),
    Figure(name="security-handshakes", title="TLS: new connections, each answered",
           unit="a second", must=1.0, aim=1.5, compared=True),
    *(
        figure
        for name, title, even in (
            ("security-logins", "SCRAM log-ins beside 500 producers", "1,000"),
            ("security-logins-tls", "SCRAM log-ins over TLS beside 500 producers", "250"),
        )
        for figure in (
            Figure(name=name, title=title, unit="a second", must=1.0, aim=2.0, compared=True),
            Figure(name=f"{name}-ack", title="the same: the producers' ack p99 beside that before",
                   unit="×", must=1.5, aim=1.5, compared=False, less_is_better=True),
            Figure(name=f"{name}-ack-ms", title="the same: the producers' ack p99", unit="ms",
                   must=1.0, aim=0.5, compared=True, less_is_better=True),
            Figure(name=f"{name}-ack-even", unit="ms", must=1.0, aim=0.5, compared=True,
                   less_is_better=True,
                   title=f"with {even} log-ins a second on both: the producers' ack p99"),
        )
    ),
    Figure(name="security-acls", title="10,000 ACLs beside 10: broker's CPU per produce request",
           unit="×", must=1.05, aim=1.01, compared=False, less_is_better=True),
    Figure(name="security-alarm", unit="×", must=1.15, aim=1.05, compared=False,
           title="everything closed: captured → alarm raised, p99, beside everything open",
           less_is_better=True),
)  # fmt: skip

_YARD = "synopsis of vtest.avi"

VIDEO = (
    Figure(name="video-tracker-mota", unit="%", must=75, aim=90, compared=False,
           title="tracker alone, truth of TUD with 10 % misses, 5 % false boxes, 2 px: MOTA"),
    Figure(name="video-tracker-switches", unit="× plain", must=0.5, aim=0.25, compared=False,
           less_is_better=True,
           title="the same: identity switches beside a tracker by overlap alone, all seeds"),
    Figure(name="video-synopsis-length", unit="%", must=25, aim=12, compared=False,
           less_is_better=True, title=f"{_YARD}: length, of the film's"),
    Figure(name="video-synopsis-tracks", unit="%", must=100, aim=100, compared=False,
           title=f"{_YARD}: tracks of 2 s and more that are in it"),
    Figure(name="video-synopsis-labels", unit="frames", must=1, aim=0, compared=False,
           less_is_better=True, title=f"{_YARD}: most that a label, read from its pixels, is off"),
    Figure(name="video-synopsis-collisions", unit="%", must=100, aim=25, compared=False,
           less_is_better=True,
           title=f"{_YARD}: targets on one another, of their frames (reported, no bound)"),
)

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(name="produce-single", title="produce, single records, acks=all", unit="records/s",
               must=1.25, aim=1.6, compared=True),
        Figure(name="produce-batches", title="produce, 16 KiB batches", unit="MB/s",
               must=1.2, aim=1.5, compared=True),
        Figure(name="consume-hot", title="consume, hot", unit="MB/s",
               must=1.0, aim=1.15, compared=True),
        Figure(name="ack-idle", title="produce ack p99, idle", unit="ms",
               must=0.5, aim=0.2, compared=True, less_is_better=True),
        *(
            figure
            for name, title in CAMERAS
            for figure in (
                Figure(name=f"{name}-cpu", title=f"{title}: broker's CPU per record", unit="µs",
                       must=0.5, aim=0.3, compared=True, less_is_better=True),
                Figure(name=f"{name}-ack", title=f"{title}: ack p99", unit="ms",
                       must=1.0, aim=0.7, compared=True, less_is_better=True),
            )
        ),
        Figure(name="memory", title="broker memory after 1 GB of traffic", unit="MB",
               must=150, aim=80, compared=False, less_is_better=True),
        Figure(name="stored", title="camera → stored, 500 records/s, p99", unit="s",
               must=1.2, aim=0.7, compared=False, less_is_better=True),
        Figure(name="alarm", title="camera → alarm, 500 records/s, p99", unit="s",
               must=0.8, aim=0.2, compared=False, less_is_better=True),
        Figure(name="backlog", title="catch-up of a 1-million-record backlog", unit="records/s",
               must=15_000, aim=40_000, compared=False),
        Figure(name="second-start", title="demo, second start → first record stored", unit="s",
               must=25, aim=15, compared=False, less_is_better=True),
        *(
            Figure(name=f"rules-{name}", title=f"100,000 rules in force: {title}", unit=unit,
                   must=must, aim=aim, compared=False, less_is_better=True)
            for name, title, unit, must, aim in (
                ("api", "500 of them by the API, p99", "s", 0.5, 0.1),
                ("page", "the page of rules, p99", "s", 0.5, 0.1),
                ("others", "another operator's question meanwhile, p99", "s", 0.2, 0.05),
                ("console", "memory of the console", "MB", 300, 200),
                ("dispatcher", "memory of the dispatcher", "MB", 400, 250),
            )
        ),
        Figure(name="matching-record", unit="µs", must=40, aim=15, compared=False,
               title="10,000 wildcards and 10,000 trees in force: a record's bytes → candidates",
               less_is_better=True),
        Figure(name="matching-growth", unit="×", must=1.3, aim=1.1, compared=False,
               title="the same with ten times the rules, of which as many are met: CPU time",
               less_is_better=True),
        Figure(name="cluster-single", title="three copies: single records, acks=all",
               unit="records/s", must=1.0, aim=2.0, compared=True),
        Figure(name="cluster-batches", title="three copies: 16 KiB batches", unit="MB/s",
               must=1.0, aim=1.5, compared=True),
        Figure(name="cluster-default", title="three copies: default batches", unit="MB/s",
               must=0.7, aim=1.0, compared=True),
        Figure(name="cluster-ack-p50", title="three copies: ack p50, idle", unit="ms",
               must=1.0, aim=0.6, compared=True, less_is_better=True),
        Figure(name="cluster-ack-p99", title="three copies: ack p99, idle", unit="ms",
               must=1.0, aim=0.6, compared=True, less_is_better=True),
        Figure(name="cluster-memory", title="three brokers: memory of each, after the above",
               unit="MB", must=0.2, aim=0.1, compared=True, less_is_better=True),
        Figure(name="cluster-term", title="SIGTERM of a leader: longest gap in acks, median",
               unit="s", must=1.2, aim=0.5, compared=True, less_is_better=True),
        Figure(name="cluster-kill", title="kill -9 of a leader: longest gap in acks", unit="s",
               must=3.0, aim=1.0, compared=False, less_is_better=True),
        Figure(name="cluster-controller", unit="s",
               title="kill -9 of the controller, 1,000 partitions: until a new topic is taken",
               must=1.0, aim=0.5, compared=True, less_is_better=True),
        Figure(name="cluster-create", title="a topic of 1,000 partitions: until all have leaders",
               unit="s", must=1.0, aim=1.0, compared=True, less_is_better=True),
        Figure(name="cluster-metadata", unit="ms",
               title="metadata of 10,000 partitions, first after a change: until it is there",
               must=1.0, aim=1.0, compared=True, less_is_better=True),
        Figure(name="cluster-metadata-again", unit="ms",
               title="metadata of 10,000 partitions, asked again: until it is there",
               must=1.0, aim=1.0, compared=True, less_is_better=True),
        Figure(name="cluster-restart", title="start after kill -9 with 6 GB of log", unit="s",
               must=5.0, aim=2.0, compared=False, less_is_better=True),
        Figure(name="cluster-unread-memory", unit="MB",
               title="100 connections × 64 fetches never read, 60 s: memory of a broker grows by",
               must=200, aim=120, compared=False, less_is_better=True),
        Figure(name="cluster-unread-ack-p99", title="the same: others' ack p99", unit="ms",
               must=50, aim=10, compared=False, less_is_better=True),
        Figure(name="cluster-unread-out-of-sync", unit="looks",
               title="the same: looks at which a replica was out of sync",
               must=0, aim=0, compared=False, less_is_better=True),
        Figure(name="cluster-flood-ack-p99", unit="ms",
               title="10 connections × 50,000 requests in one write, 60 s: others' ack p99",
               must=50, aim=20, compared=False, less_is_better=True),
        Figure(name="cluster-flood-fenced", unit="looks",
               title="the same: looks at which a broker was fenced or the controller another",
               must=0, aim=0, compared=False, less_is_better=True),
        *INGEST,
        *CLEANER,
        *FUZZY,
        *ALARMS,
        *SECURITY,
        *VIDEO,
        Figure(name="mirror-cpu", unit="records/s", must=2, aim=4, compared=True,
               title="mirror and MirrorMaker 2: records per CPU second, 1 M of 0.3 kB, zstd"),
        Figure(name="mirror-delay", unit="ms", must=0.5, aim=0.2, compared=True,
               title="the same at 1,000 records/s: added delay, p99", less_is_better=True),
        Figure(name="mirror-memory", unit="MB", must=0.2, aim=0.1, compared=True,
               title="the same: memory of the process", less_is_better=True),
        Figure(name="mirror-apache-cpu", unit="records/s", must=2, aim=4, compared=True,
               title="Apache Kafka to Apache Kafka: records per CPU second, 1 M of 0.3 kB, zstd"),
        Figure(name="mirror-apache-delay", unit="ms", must=0.5, aim=0.2, compared=True,
               title="the same at 1,000 records/s: added delay, p99", less_is_better=True),
        Figure(name="mirror-apache-sooner", unit="ms", must=0.5, aim=0.2, compared=True,
               title="the same, at least once as MirrorMaker does it: added delay, p99",
               less_is_better=True),
        Figure(name="mirror-apache-committed", unit="ms", must=0.5, aim=0.2, compared=True,
               title="the same, MirrorMaker in transactions as ours: added delay, p99",
               less_is_better=True),
        Figure(name="mirror-apache-memory", unit="MB", must=0.2, aim=0.1, compared=True,
               title="the same: memory of the process", less_is_better=True),
        Figure(name="mirror-link", unit="records/s", must=2, aim=4, compared=True,
               title="mirror and MirrorMaker 2 over a round trip of 50 ms: a backlog of 400,000"),
        Figure(name="mirror-buffers", unit="× small", must=1.2, aim=2, compared=False,
               title="the same, our mirror: socket buffers of 1 MiB beside 16 KiB"),
        Figure(name="mirror-cut", unit="s", must=60, aim=30, compared=False, less_is_better=True,
               title="the same link cut while 600,000 records come: caught up, at 1,000/s"),
        Figure(name="mirror-many", unit="× ten", must=1.5, aim=1.1, compared=False,
               title="mirror, 1,000 partitions, a tenth busy: added delay beside ten, p99",
               less_is_better=True),
        Figure(name="mirror-switch", unit="ms", must=5000, aim=1000, compared=False,
               title="planned switch: last acknowledged at A → first acknowledged at B",
               less_is_better=True),
        Figure(name="mirror-switch-stored", unit="ms", must=10_000, aim=3000, compared=False,
               title="two sites, planned: last acknowledged at A → first own one stored at B",
               less_is_better=True),
        Figure(name="mirror-forced", unit="ms", must=5000, aim=2000, compared=False,
               title="forced switch: the command's start → first acknowledged at B",
               less_is_better=True),
        Figure(name="mirror-group", unit="s", must=2, aim=1, compared=False,
               title="forced switch: so long before A's end a group stands at B",
               less_is_better=True),
        Figure(name="mirror-flipped", unit="s", must=60, aim=30, compared=False,
               title="a flipped bit in the last hour's data, named", less_is_better=True),
    )
}  # fmt: skip


def report_row(samples: Samples) -> ReportRow:
    """The line of one figure."""
    figure = FIGURES[samples.figure]
    ours = _value(figure, samples.ours)
    kafka = statistics.median(samples.kafka) if samples.kafka else None
    ratio = ours / kafka if kafka else None
    measured = ratio if figure.compared and ratio is not None else ours
    comparable = ratio is not None or not figure.compared
    return ReportRow(
        figure=figure,
        runs=len(samples.ours),
        ours=ours,
        kafka=kafka,
        ratio=ratio,
        must_met=comparable and _reaches(measured, figure.must, figure.less_is_better),
        aim_met=comparable and _reaches(measured, figure.aim, figure.less_is_better),
        ours_runs=tuple(samples.ours),
        kafka_runs=tuple(samples.kafka),
    )


def _value(figure: Figure, runs: Sequence[float]) -> float:
    if figure.worst:
        return max(runs) if figure.less_is_better else min(runs)
    return statistics.median(runs)


def _reaches(value: float, bound: float, less_is_better: bool) -> bool:
    return value <= bound if less_is_better else value >= bound
