"""Figures of records and alarms from capture to store, on one machine and on a city's servers.

See deploy/bench/README.md.
"""
