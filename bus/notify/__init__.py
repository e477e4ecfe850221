"""Telling people: one port of notifiers for alarms and incidents, its queue and its delivery."""
