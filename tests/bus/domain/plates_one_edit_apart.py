"""One edit, by its definition: every text that one makes."""

from __future__ import annotations


def is_one_edit_apart(one: str, other: str) -> bool:
    """Whether leaving out a character of either, or putting one of the other in its place, makes
    them the same."""
    lacking = {one[:at] + one[at + 1 :] for at in range(len(one))}
    more = {other[:at] + other[at + 1 :] for at in range(len(other))}
    changed = {one[:at] + sign + one[at + 1 :] for at in range(len(one)) for sign in other}
    return one != other and (other in lacking or one in more or other in changed)
