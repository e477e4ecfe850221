"""Alarms: the watch list (rules, pure), verdicts and their dispatch. See README.md."""
