"""Whom a rule is about, and which text it has. Pure.

In: commands. Out: its targets (one per plate that it names; else its conditions are one), the
SHA-256 of its text. Never: who asked for it, when or why: the same text has the same digest.
"""

from __future__ import annotations

import hashlib

import msgspec

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import (
    Expression,
    OneOf,
    RegularExpression,
    Resemblance,
    Substring,
    Wildcard,
)
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.tree import attributes_of_tree, nodes_of
from bus.domain.matchable import MATCHABLE
from bus.domain.plates import plate_form
from bus.domain.rule_values import PLATE

_ENVELOPE = frozenset({
    "op", "version", "author", "command_id", "issuer", "account", "session", "reason", "case",
    "seen_version", "signature", "text_sha256", "unit",
})  # fmt: skip
"""Fields that are about the request; all others, also those to come, are the text."""
_USUAL = {
    field.name: field.default if field.default is not msgspec.NODEFAULT
    else field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None
    for field in msgspec.structs.fields(WatchCommand)
}  # fmt: skip


def text_sha256(command: WatchCommand) -> str:
    """Of its canonical form. What stands at its default is left out, so that a later version's new
    fields do not change it. Where it names a target the case belongs to it: of another case it is
    another target."""
    text = {
        name: getattr(command, name) for name in WatchCommand.__struct_fields__
        if name not in _ENVELOPE and getattr(command, name) != _USUAL[name]
    }  # fmt: skip
    if command.target:
        text["case"] = command.case.strip()
    return hashlib.sha256(msgspec.json.encode(text, order="deterministic")).hexdigest()


def names_somebody(command: WatchCommand) -> bool:
    """Whether it asks for a plate or a face: then there has to be a reason."""
    if PLATE not in MATCHABLE[command.kind] or PLATE in command.match:
        return True
    return command.where is not None and PLATE in attributes_of_tree(command.where)


def targets_of(command: WatchCommand) -> frozenset[str]:
    """Digests: one per plate, as it is compared, however the rule puts it; of a rule without one
    that of its conditions."""
    tree = tree_of(command)
    nodes = () if tree is None else nodes_of(tree)
    plates = {plate for node, _ in nodes for plate in _plates_of(node)}
    if plates:
        return frozenset(_digest(f"plate {plate}") for plate in plates)
    conditions = {"kind": command.kind, "match": command.match, "where": command.where}
    return frozenset({_digest(msgspec.json.encode(conditions, order="deterministic").decode())})


def _plates_of(node: Expression) -> tuple[str, ...]:
    if getattr(node, "attribute", "") != PLATE:
        return ()
    match node:
        case OneOf(values=values):
            return tuple(plate_form(one) or one for one in values)
        case Resemblance(plate=plate):
            return (plate_form(plate) or plate,)
        case Wildcard(pattern=text) | RegularExpression(pattern=text) | Substring(text=text):
            return (text.upper(),)
        case _:
            return ()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
