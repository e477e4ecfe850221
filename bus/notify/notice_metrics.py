"""What has become of notices, as metrics: of the dispatcher and of the watch."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

SENT, FAILED, GIVEN_UP, ACKNOWLEDGED = "sent", "failed", "given_up", "acknowledged"


class NoticeMetrics:
    """Of one process, by notifier and outcome; a notice that failed is tried again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._notices = Counter(
            "databus_notices", "Attempts to deliver a notice, by their outcome.",
            ["notifier", "outcome"], registry=registry,
        )  # fmt: skip

    def count(self, notifier: str, outcome: str, notices: int = 1) -> None:
        """So many attempts."""
        self._notices.labels(notifier, outcome).inc(notices)
