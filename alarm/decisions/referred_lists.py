"""Whether the lists that a rule asks for are in force, and of the kind that it takes them for.
Pure.

In: a rule's tree, the lists in force. Out: `RuleError`, or nothing. Never: what becomes of a rule
whose list ends later: it stays in force, and is met by no record.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.contracts.expressions import Expression, OnList
from bus.contracts.plate_lists import ListRecord
from bus.domain.expressions.tree import nodes_of
from bus.domain.feature_models import is_threshold
from bus.domain.rule_check import RuleError
from bus.domain.rule_values import FEATURE, PLATE


def check_lists(tree: Expression | None, in_force: Mapping[str, ListRecord]) -> None:
    """`in_force`: by id. Raises `RuleError`."""
    if tree is not None:
        for node, _ in nodes_of(tree):
            if isinstance(node, OnList):
                _check_leaf(node, in_force.get(node.list_id))


def _check_leaf(leaf: OnList, record: ListRecord | None) -> None:
    if record is None:
        raise RuleError("where", f"no list {leaf.list_id} is in force; import it first; see:"
                        " databus lists show", "unknown_list")  # fmt: skip
    if record.is_gallery and leaf.attribute != FEATURE:
        raise RuleError("where", f"{leaf.list_id} is a gallery of faces; write {FEATURE} on"
                        f" {leaf.list_id}", "list_of_faces")  # fmt: skip
    if not record.is_gallery and leaf.attribute == FEATURE:
        raise RuleError("where", f"{leaf.list_id} is a list of plates; write {PLATE} on"
                        f" {leaf.list_id}", "list_of_plates")  # fmt: skip
    model, threshold = record.model, leaf.threshold
    if model is None or threshold is None or is_threshold(threshold, model.measure):
        return
    raise RuleError("where", f"{leaf.list_id} is compared by {model.measure}: no score can be near"
                    f" {threshold:g}", "threshold")  # fmt: skip
