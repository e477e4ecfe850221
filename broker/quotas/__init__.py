"""Rates by which the broker holds back what a quota bounds. See README.md."""
