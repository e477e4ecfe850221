"""What a file brings into the register: the changes, or every fault with its line. Pure.

In: a file as it was read, what stands on the topic and what is in force. Out: entries to be sent,
or all faults, of form and of meaning, at once. Never: writing; a change where anything is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bus.contracts.register_entry import RegisterEntry
from bus.domain.register_changes import Entries, changes, faults, merged
from bus.domain.register_formats import LineFault, ReadFile


class RegisterImport(NamedTuple):
    """`changes` is what becomes different for who uses the register, `to_send` what brings its
    topic there, in the order to send it; both empty where there are faults. `added`: keys that are
    new."""

    changes: Entries
    to_send: Entries
    added: frozenset[str]
    faults: list[LineFault]


def plan_import(
    read: ReadFile,
    on_topic: Mapping[str, RegisterEntry],
    in_force: Mapping[str, RegisterEntry],
    *,
    replace: bool,
) -> RegisterImport:
    """`in_force` is what stands on the topic, or, while that is empty, the site's own file, which
    the first change brings along whole. `replace` removes what the file does not name."""
    after = dict(read.entries) if replace else merged(in_force, read.entries)
    of_meaning = [
        LineFault(read.lines.get(one.key, 0), f"{one.key}: {one.text}", f"{one.key}：{one.text_zh}")
        for one in faults(after, read.unread)
    ]
    wrong = sorted([*read.faults, *of_meaning], key=lambda fault: fault.line)
    if wrong:
        return RegisterImport({}, {}, frozenset(), wrong)
    added = frozenset(after.keys() - in_force.keys())
    return RegisterImport(changes(in_force, after), changes(on_topic, after), added, [])
