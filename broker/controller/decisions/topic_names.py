"""Which names a topic may have, and which two may not stand beside each other.

In: names. Out: what is wrong, in Kafka's words (people's tests match them). Never: the image.
"""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249
"""A topic's directory name must fit a file name with its partition and a delete suffix."""

METADATA_TOPIC = "__cluster_metadata"
"""The controllers' own log; no client makes a topic of that name."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def name_fault(name: str) -> str | None:
    """What is wrong with a topic's name, in a sentence, or None."""
    fault = _fault(name)
    return None if fault is None else f"Topic name is invalid: {fault}"


def _fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _NAME.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Metrics turn dots into underscores, so two names may not differ in these alone."""
    return name.replace(".", "_")
