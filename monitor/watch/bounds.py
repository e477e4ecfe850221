"""The bounds that the settings name, as the core takes them."""

from __future__ import annotations

from monitor.settings import WatchSettings
from monitor.watch.curve import CurveBounds
from monitor.watch.judge import WatchBounds
from monitor.watch.progress import ProgressBounds
from monitor.watch.silence import SilenceBounds


def bounds_of(settings: WatchSettings) -> WatchBounds:
    """Seconds become milliseconds."""
    return WatchBounds(
        away_ms=int(settings.away_s * 1000),
        filling_share=settings.filling_share,
        filling_ms=int(settings.filling_s * 1000),
        spool_share=settings.spool_share,
        progress=ProgressBounds(
            standing_ms=int(settings.standing_s * 1000),
            backlog_ms=int(settings.backlog_s * 1000),
            backlog_records=settings.backlog_records,
        ),
        silence=SilenceBounds(
            factor=settings.silence_factor,
            least_ms=int(settings.silence_min_s * 1000),
            together=settings.silence_together,
        ),
        curve=CurveBounds(lost_share=settings.curve_lost_share, minutes=settings.curve_minutes),
    )
