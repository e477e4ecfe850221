"""Whom an alarm is about, so that a second passage is known as one. Pure.

In: a command, the comparable attributes of a record that meets it. Out: the plate of the rule that
was meant, else what was read of it; empty where nothing tells one target from another. Never: a
face: two of them are told apart by a model only, so that each record is one by itself.
"""

from __future__ import annotations

from bus.domain.plates import UNREAD

LEAST_READ = 3
"""Letters and digits of a plate that was read in part; fewer are read of many cars."""


def target_of_reading(form: str) -> str:
    """Of a plate in comparable form."""
    read = sum(sign.isalnum() and sign != UNREAD for sign in form)
    return form if read >= LEAST_READ else ""
