"""`watch confusion fit` with our own broker, a dispatcher, its store, and judged alarms."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from alarm.cli import mount, watch_commands
from alarm.dispatch.reader import OperationsReader
from alarm.settings import DispatcherSettings
from bus.client.kafka.producer import Producer
from bus.contracts.alarms import Alarm, Candidate
from bus.contracts.commands import DecidedRule
from bus.contracts.topics import EVENT_CANDIDATE, STATE_WATCHLIST
from bus.domain.confusion_table import table_of
from bus.domain.visibility import EVERYTHING
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import PageRequest
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.running_dispatcher import running_dispatcher

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WITHIN_S = 60.0
TABLE = "own.json"
READINGS = ("浙A8D345", "浙皖A80345", "浙AB0345", "浙AB0345")
"""Of the plate 浙A8D345; the first is right, the second has a character too many."""


class FittingSite:
    """A broker, a data directory whose settings name a table, the command line."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bus = BusSettings(bootstrap_servers=bootstrap)
        self.site = SiteSettings(data_dir=str(folder), confusion_table=TABLE)
        self.path = folder / TABLE
        self._settings = SimpleNamespace(bus=self.bus, site=self.site, dispatcher=DispatcherSettings())
        self._app = typer.Typer()
        mount(self._app)
        self._app.add_typer(watch_commands(), name="watch")

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(self._app, words, obj=self._settings)

    def done(self, *words: str) -> str:
        result = self.run(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def send(self, topic: str, *messages: DecidedRule | Candidate) -> None:
        producer = Producer(self.bus, client_id="test")
        for message in messages:
            producer.send(topic, msgspec.json.encode(message), key=message.rule_id)
        assert producer.close() == 0

    def stored(self, alarm_id: str) -> Alarm | None:
        path = DispatcherSettings().operations_path(self.site)
        with closing(OperationsReader(path)) as reader:
            return reader.alarm(alarm_id, viewer=EVERYTHING)

    def judged(self) -> int:
        path = DispatcherSettings().operations_path(self.site)
        with closing(OperationsReader(path)) as reader:
            alarms, _ = reader.alarms(page=PageRequest(limit=100), viewer=EVERYTHING)
            states = reader.alarm_states([one.alarm_id for one in alarms])
        return sum(bool(one.verdict) for one in states.values())


def seen(rule_id: str, number: int, read: str) -> Candidate:
    record = {"卡口编号": f"c{number}", "车牌号码": read, "抓拍时间": "2017-08-24 17:25:34"}
    return Candidate(
        rule_id=rule_id, rule_version=1, record_id=str(number), kind="vehicle", received_at_ms=2_000 + number,
        captured_at_ms=1_000 + number, record=msgspec.json.encode(record).decode(),
    )  # fmt: skip


def put(rule_id: str, plate: str) -> DecidedRule:
    return DecidedRule(rule_id=rule_id, op="put", version=1, match={"plate_number": [plate]}, quiet_s=0)


def until(found: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_site_fits_its_table_from_its_judged_alarms_and_its_dispatcher_goes_by_it(tmp_path: Path) -> None:
    """Two confirmed, one false one; alarms of an exact rule and those that nobody has judged say
    nothing. The dispatcher takes the new file as it runs."""
    with running_broker(tmp_path / "broker") as broker:
        site = FittingSite(broker.bootstrap, tmp_path / "site")
        site.send(STATE_WATCHLIST, put("fuzzy", "~2:浙A8D345"), put("exact", "苏C77777"))
        site.send(EVENT_CANDIDATE, *(seen("fuzzy", number, read) for number, read in enumerate(READINGS)))
        site.send(EVENT_CANDIDATE, seen("exact", 90, "苏C77777"))
        with running_dispatcher(broker.bootstrap, tmp_path / "site", alarms=5, confusion_table=TABLE):
            nothing = site.run("watch", "confusion", "fit")
            assert (nothing.exit_code, "no alarm says" in nothing.stderr, site.path.exists()) == (1, True, False)
            for alarm_id in ("fuzzy:0", "fuzzy:1", "fuzzy:2", "exact:90"):
                site.done("alarms", "take", alarm_id, "--by", "li")
            for alarm_id in ("fuzzy:0", "fuzzy:1", "exact:90"):
                site.done("alarms", "confirm", alarm_id, "--by", "li")
            site.done("alarms", "false", "fuzzy:2", "--why", "resembles", "--by", "li")
            until(lambda: site.judged() == 4, "the judgements are not stored")

            dry = json.loads(site.done("watch", "confusion", "fit", "--dry-run", "--json"))
            assert (dry["confirmed"], dry["false"], dry["letters"], dry["file"]) == (2, 1, 16, "")
            assert dry["by_character"] == {"浙": 2, "A": 2, "8": 3, "D": 3, "3": 2, "4": 2, "5": 2}
            assert (dry["inserted"], dry["omitted"]) == ({"皖": 1}, {})
            assert not site.path.exists()

            said = site.done("watch", "confusion", "fit")
            assert "3 alarms count: 2 confirmed, 1 false" in said
            assert "rests on 16 letters" in said
            assert "characters that readers put in: 1 (皖 1)" in said
            assert "rules go by it from now on" in " ".join(said.split())
            table = table_of(site.path.read_bytes())
            site.send(EVENT_CANDIDATE, seen("fuzzy", 50, "浙A80345"))
            until(lambda: site.stored("fuzzy:50"), "no alarm of the new reading")
        before, after = site.stored("fuzzy:1"), site.stored("fuzzy:50")
        assert before is not None
        assert before.misread is not None
        assert before.misread.table == ""
        assert after is not None
        assert after.misread is not None
        assert after.misread.table == table.version
        assert after.misread.price == pytest.approx(table.prices.taken_for[-1]["D"]["0"], abs=1e-3)


def test_without_a_store_it_says_so(tmp_path: Path) -> None:
    lost = FittingSite("127.0.0.1:1", tmp_path).run("watch", "confusion", "fit")
    assert (lost.exit_code, "no alarms can be read" in lost.stderr) == (1, True)
