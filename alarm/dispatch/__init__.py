"""The dispatcher: verdicts, once-only alarms, incidents, notifiers. Imports none of its parts: the
watch reads the operations store, and has sixty megabytes."""
