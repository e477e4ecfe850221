"""The curves of sent and valid: fallen apart, growing apart, well."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.watch.curve import CurveBounds, MinuteTotal, QualityCurve

SENT = 1_000


def courses(valid: Sequence[int]) -> list[bool | None]:
    curve = QualityCurve(CurveBounds())
    totals = (MinuteTotal("vehicle", n * 60_000, SENT, v) for n, v in enumerate(valid))
    return [one.is_bad for one in map(curve.observe, totals) if one is not None]


def test_a_curve_that_falls_is_bad_after_its_minutes() -> None:
    """Two bad minutes heal by themselves."""
    assert courses([990, 700, 700, 990]) == [False, None, None, False]
    assert courses([990, 700, 700, 700])[-1] is True


def test_a_gap_that_keeps_growing_is_bad_long_before_the_bound() -> None:
    """One, three, five … percent, never back."""
    assert courses([990, 970, 950, 930, 915, 905])[-1] is True
    assert courses([990, 970, 950, 960, 930, 920])[-1] is not True


def test_noise_is_well() -> None:
    """A percent up and down."""
    assert set(courses([990, 985, 992, 980, 991, 988, 985, 984, 983, 982, 981])) == {False}


def test_quiet_minutes_and_minutes_that_were_judged_say_nothing() -> None:
    """The probe asks for the last ten minutes every minute."""
    curve = QualityCurve(CurveBounds())
    assert curve.observe(MinuteTotal("face", 0, 5, 0)) is None
    assert curve.observe(MinuteTotal("face", 60_000, 100, 99)) is not None
    assert curve.observe(MinuteTotal("face", 60_000, 100, 0)) is None
