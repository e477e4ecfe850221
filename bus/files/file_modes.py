"""Modes of files that hold secrets. Pure."""

from __future__ import annotations

OTHERS_MASK = 0o077
"""Of a file's mode: what group and others may do."""
