"""What a rule accepts, as examples, while it is typed."""

from __future__ import annotations

from nicegui import ui

from bus.contracts.expressions import Expression, OnList, Resemblance, Substring, Wildcard
from bus.domain.accepted_examples import AcceptedExamples, accepted_examples
from monitor.i18n import Texts

MOST_SHOWN = 12  # conditions; a person reads no more


class RuleExamples:
    """A list below the fields of a rule; nothing where no condition is one of similar plates."""

    def __init__(self, t: Texts) -> None:
        self._t = t
        self._area = ui.element("div").props("role=status data-area=accepted")
        self._area.style("width: 100%")

    def show(self, tree: Expression | None) -> None:
        """Of a tree that was checked."""
        t = self._t
        found = accepted_examples(tree) if tree is not None else []
        self._area.clear()
        if not found:
            return
        with self._area:
            ui.label(t("accepts.title")).classes("soft")
            with ui.element("ul").style("margin: 0; padding: 0; list-style: none"):
                for one in found[:MOST_SHOWN]:
                    with ui.element("li"):
                        ui.label(_words(one, t))


def _words(one: AcceptedExamples, t: Texts) -> str:
    examples = t("list.comma").join(one.plates)
    match one.leaf:
        case Resemblance(plate=plate):
            return t("accepts.misread", text=plate, examples=examples)
        case Wildcard(pattern=text):
            return t("accepts.like", text=text, examples=examples)
        case Substring(text=text):
            return t("accepts.contains", text=text, examples=examples)
        case OnList(list_id=list_id):
            return t("accepts.listed", text=list_id, examples=examples)
    return examples
