"""The dispatcher: verdicts, once-only alarms, incidents, notifiers."""

from alarm.dispatch.service import serve

__all__ = ["serve"]
