"""Every command: its name, the module that mounts it, the line that `--help` shows of it.

In: nothing. Out: the table. Never: an import of what it names: a command loads its own module only,
since those of all take a second of CPU. `tests/deploy/test_command_table.py` compares.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandRow(NamedTuple):
    """One command, or group of commands. `module` offers `mount(app)`, which adds it."""

    name: str
    module: str
    help: str


COMMANDS = (
    CommandRow(
        "demo",
        "deploy.demo.cli",
        "Everything at once: the product, and a living city of cameras that sends to it.",
    ),
    CommandRow(
        "up",
        "deploy.product.cli",
        "Start broker, edge, streams, dispatcher, console and watch, and keep them alive.",
    ),
    CommandRow(
        "down",
        "deploy.product.cli",
        "Stop what `up` or `demo` started on this data directory, cleanly, and wait for it.",
    ),
    CommandRow(
        "status",
        "deploy.product.cli",
        "Every role: its state and since when, its process, how often it was "
        "restarted, how many records wait for it.",
    ),
    CommandRow("logs", "deploy.product.cli", "The end of one role's log."),
    CommandRow(
        "run",
        "deploy.roles.cli",
        "One role in the foreground: what the supervisor, systemd and compose start.",
    ),
    CommandRow(
        "account",
        "deploy.reconcile.cli",
        "Account for everything in the data directory while the broker runs; status as in `demo`.",
    ),
    CommandRow(
        "test",
        "deploy.test_runs.cli",
        "Run the tests: all of them, or those that the further words (pytest's own) choose.",
    ),
    CommandRow(
        "simulate",
        "deploy.test_runs.cli",
        "Whole clusters with clients in virtual time, with faults drawn from a seed; "
        "all is checked.",
    ),
    CommandRow(
        "bench",
        "deploy.bench.cli",
        "Measure side by side with Apache Kafka on the same cores, and the whole flow end to end.",
    ),
    CommandRow(
        "backup",
        "deploy.backup.cli",
        "Save records, alarms, incidents, accounts, rules and register while everything runs.",
    ),
    CommandRow(
        "restore",
        "deploy.backup.cli",
        "Put a backup into the data directory of a product that does not run.",
    ),
    CommandRow(
        "size",
        "deploy.sizing.cli",
        "How many brokers, executors and region servers a city needs, with the sums behind them.",
    ),
    CommandRow(
        "package",
        "deploy.roles.cli",
        "Make the one zip of our packages for Spark's --py-files.",
    ),
    CommandRow(
        "setup",
        "deploy.setup.cli",
        "Fetch now what the first start would fetch: Java (where we may), connector, test servers.",
    ),
    CommandRow(
        "config",
        "deploy.settings.cli",
        "The settings in force by section, after file, variables and flags; `***` is a secret.",
    ),
    CommandRow(
        "secure",
        "deploy.secure.cli",
        "A closed site: its certificates, its accounts, and who may do what.",
    ),
    CommandRow(
        "screenshots",
        "deploy.documentation.cli",
        "Take the pictures of the console that README shows, from a demo that runs.",
    ),
    CommandRow("cluster", "deploy.cluster.cli", "A cluster of brokers on this machine."),
    CommandRow(
        "topics",
        "bus.cli.topics",
        "Topics of the bus: list, create, describe, grow, delete.",
    ),
    CommandRow(
        "reassign",
        "bus.cli.reassign",
        "Move replicas to other brokers: plan, apply, verify, cancel, list.",
    ),
    CommandRow("leaders", "bus.cli.leaders", "Leaders of partitions: elect."),
    CommandRow("brokers", "bus.cli.brokers", "The brokers of the cluster: list, describe."),
    CommandRow("quorum", "bus.cli.quorum", "The metadata quorum (KRaft): describe, add, remove."),
    CommandRow(
        "configs",
        "bus.cli.configs",
        "Configurations of topics, brokers, loggers (Apache Kafka: groups too): get, set, unset.",
    ),
    CommandRow("acl", "bus.cli.acl", "Who may do what on the bus: list, add, remove, explain."),
    CommandRow(
        "tokens",
        "bus.cli.tokens",
        "Tokens that log in without a password: create, list, renew, expire.",
    ),
    CommandRow(
        "quotas",
        "bus.cli.quotas",
        "How much of the brokers a client may use: list, set, unset.",
    ),
    CommandRow("groups", "bus.cli.groups", "Consumer groups: list, describe, reset, delete."),
    CommandRow(
        "cleaner",
        "deploy.product.cleaner_cli",
        "The brokers' log cleaners: what is dirty, what cannot be cleaned.",
    ),
    CommandRow(
        "register",
        "bus.cli.register",
        "The deployment register: districts, checkpoints, devices, roads.",
    ),
    CommandRow(
        "produce",
        "bus.cli.records",
        "Send the lines of standard input, one record a line, and wait until all are on the bus.",
    ),
    CommandRow(
        "consume",
        "bus.cli.records",
        "Print records as they come; Ctrl-C stops. Begins at the end unless told otherwise.",
    ),
    CommandRow("broker", "broker.cli", "The Kafka-compatible broker by itself."),
    CommandRow("log", "broker.log_cli", "The files of a partition: dump."),
    CommandRow(
        "records",
        "ingest.cli",
        "Stored records, newest capture first, with the path of their picture.",
    ),
    CommandRow(
        "rejected",
        "ingest.cli",
        "Rejected records with their reason, newest first; --json shows their bytes as text.",
    ),
    CommandRow(
        "faces",
        "deploy.product.faces_cli",
        "Stored faces that resemble one, best first, with their scores. Ctrl-C stops it.",
    ),
    CommandRow(
        "evidence",
        "deploy.product.evidence_cli",
        "Pack pictures, the devices' own messages, both clocks and hashes, with a page to print.",
    ),
    CommandRow(
        "check-message",
        "ingest.cli",
        "Explain every fault of the messages a device sends, in English and Chinese.",
    ),
    CommandRow(
        "hbase-tables",
        "ingest.cli",
        "Print what makes the store's tables in several regions: pipe it into `hbase shell -n`.",
    ),
    CommandRow("edge", "ingest.edge.cli", "The HTTP edge of this machine."),
    CommandRow("film", "ingest.films.cli", "Films of cameras: add one, list what is kept."),
    CommandRow(
        "recognise",
        "ingest.senders.video.cli",
        "Find and track people, vehicles and other movers in a film; send a record of each.",
    ),
    CommandRow(
        "synopsis",
        "ingest.senders.video.synopsis_cli",
        "Show all targets of a film together in a short one, each with its true time.",
    ),
    CommandRow(
        "replay",
        "ingest.senders.replay.cli",
        "Send recorded messages again, one JSON object per line.",
    ),
    CommandRow("city", "ingest.senders.simulator.cli", "The simulated city of cameras."),
    CommandRow("watch", "deploy.product.watch_cli", "The watch list: who or what is looked for."),
    CommandRow("lists", "deploy.product.lists_cli", "Lists of plates, galleries of faces."),
    CommandRow("cases", "alarm.cases_cli", "Cases: their targets, rules and alarms."),
    CommandRow("alarms", "alarm.cli", "Alarms that were raised."),
    CommandRow("accounts", "monitor.cli", "Accounts of the console and its API."),
    CommandRow("questions", "monitor.cli", "Who asked what of a plate or a face, when and why."),
    CommandRow("mirror", "dr_mirror.cli", "The mirror to the second site."),
)
