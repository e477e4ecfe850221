"""Quality and latency over a restart: what nobody judged is judged, and nothing else."""

from __future__ import annotations

from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.register import Register
from bus.domain.times import MINUTE_MS
from ingest.store.quality_cells import key_of
from monitor.models.cell_window import CellWindow
from monitor.models.histogram import bucket_of
from monitor.models.hysteresis import Hysteresis
from monitor.models.latency import LatencyIncidents, latency_window
from monitor.models.quality import GapIncidents
from spark_apps.apps import latency, quality
from spark_apps.queries.windowed import JudgedWindow

SERIES = 3
LATE = Hysteresis(10_000, 8_000, SERIES, SERIES)
GAPS = Hysteresis(0.2, 0.1, SERIES, SERIES)
START = 1_000  # a minute


def moments(minute: int) -> tuple[int, int]:
    """When the cells of a minute are published: early and late in it."""
    return minute * MINUTE_MS + 5_000, minute * MINUTE_MS + 50_000


def gap(minute: int, share: float) -> QualityCell:
    return QualityCell(
        kind="vehicle", camera_ip="10.0.0.1", recognizer_ip="", minute_ms=minute * MINUTE_MS,
        sent=100, arrived=100, valid=round(100 * (1 - share)), rejected={}, attempt=1,
    )  # fmt: skip


def delay(minute: int, seconds: int) -> LatencyCell:
    return LatencyCell(
        kind="vehicle", district_id="d1", camera_ip="10.0.0.1", minute_ms=minute * MINUTE_MS,
        buckets={bucket_of(seconds * 1000): 50}, attempt=1,
    )  # fmt: skip


class Run:
    """Drivers one after the other on one topic of cells, each killed after what it has read."""

    def __init__(self, what: str) -> None:
        self.quality = what == "quality"
        self.rule = GAPS if self.quality else LATE
        self.told: list[tuple[str, int]] = []
        self.known: dict[str, Incident] = {}

    def driver(self, series: str, done: int) -> None:
        """Reads it all (`x` is a bad minute), when so many minutes of it were read before."""
        window = JudgedWindow(CellWindow(key_of) if self.quality else latency_window())  # type: ignore[var-annotated,type-var]
        for number, state in enumerate(series):
            minute = START + number
            bad = state == "x"
            cell = gap(minute, bad * 0.5) if self.quality else delay(minute, 1 + 29 * bad)
            for moment_ms in moments(minute):
                window.add([cell], moment_ms, was_done=number < done)
        window.trim()
        self._judge(window)

    def _judge(self, window: JudgedWindow) -> None:  # type: ignore[type-arg]
        judge = GapIncidents(GAPS, Register()) if self.quality else LatencyIncidents(LATE)
        for incident in self.known.values():
            judge.resume(incident)
        judge.judged_until_ms = window.begin_ms(self.rule)
        self._tell(window, judge)

    def _tell(self, window: JudgedWindow, judge: object) -> None:  # type: ignore[type-arg]
        module = quality if self.quality else latency
        for one in module.judge(window.cells, judge, window.settled.until_ms()):  # type: ignore[arg-type]
            if one.detail.get("scope") not in ("device", "district"):
                continue
            self.told.append((one.state, one.opened_at_ms // MINUTE_MS - START))
            if one.state == "open":
                self.known[one.incident_id] = one
            else:
                del self.known[one.incident_id]


    def one_driver(self, series: str) -> int:
        """Judges after each minute that it reads; the most minutes that it kept then."""
        window = JudgedWindow(CellWindow(key_of) if self.quality else latency_window())  # type: ignore[var-annotated,type-var]
        judge = GapIncidents(GAPS, Register()) if self.quality else LatencyIncidents(LATE)
        most = 0
        for number, state in enumerate(series):
            minute, bad = START + number, state == "x"
            cell = gap(minute, bad * 0.5) if self.quality else delay(minute, 1 + 29 * bad)
            for moment_ms in moments(minute):
                window.add([cell], moment_ms, was_done=False)
            self._tell(window, judge)
            window.drop_judged(window.settled.until_ms())
            most = max(most, len(window.cells.minutes))
        return most


BOTH = ("quality", "latency")


def test_a_driver_that_was_away_for_most_of_two_hours_judges_what_it_missed() -> None:
    """What broke: only the last ten minutes were judged; a gap that opened and closed before was
    told to nobody."""
    for what in BOTH:
        run = Run(what)
        run.driver("....", 0)
        run.driver("...." + "." * 5 + "xxxx" + "." * 90, 4)
        assert run.told == [("open", 9), ("closed", 9)], what


def test_each_restart_in_each_minute_tells_what_one_driver_would() -> None:
    """A series of bad minutes that began before a kill goes on; what was told is not told again."""
    series = "...xx..xxxxx..x....xxx......"
    for what in BOTH:
        alone = Run(what)
        alone.driver(series, 0)
        assert [state for state, _ in alone.told] == ["open", "closed"] * 2, what
        for killed in range(len(series)):
            run = Run(what)
            run.driver(series[:killed], 0)
            run.driver(series, killed)
            assert run.told == alone.told, (what, killed)


def test_a_driver_that_starts_where_nobody_judged_judges_what_there_is() -> None:
    """A new group."""
    for what in BOTH:
        run = Run(what)
        run.driver("xxxx....", 0)
        assert run.told == [("open", 0), ("closed", 0)], what


def test_one_killed_in_every_minute_judges_each_once() -> None:
    """The supervisor starts it again and again."""
    series = "..xxxx....xxxx.....x.."
    run, alone = Run("quality"), Run("quality")
    alone.driver(series, 0)
    for end in range(1, len(series) + 1):
        run.driver(series[:end], end - 1)
    assert run.told == alone.told


def test_a_driver_keeps_only_minutes_that_are_not_judged_and_tells_the_same() -> None:
    """Regression: cells of two hours stayed in memory, half a gigabyte for 2,000 devices."""
    series = "...xx..xxxxx..x....xxx......"
    for what in BOTH:
        at_once, minute_by_minute = Run(what), Run(what)
        at_once.driver(series, 0)
        assert minute_by_minute.one_driver(series) <= 3
        assert minute_by_minute.told == at_once.told, what
