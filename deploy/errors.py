"""The errors of `deploy` that end in one sentence for the operator, never in a traceback."""

from __future__ import annotations


class OperatorError(Exception):
    """Something the person at the keyboard can put right; the text says how."""


class Unavailable(OperatorError):
    """A bought piece (Java, Maven, jars) that cannot be had here; tests skip by its name."""
