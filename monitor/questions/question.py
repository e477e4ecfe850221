"""A person's question, and what the site asks of it. Pure.

In: what is asked for, by whom, why. Out: `ReasonMissing`, or nothing. Never: an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from bus.contracts.command_codes import NO_CASE, NO_REASON
from bus.contracts.commands import WatchCommand
from bus.domain.command_error import CommandError
from bus.domain.expressions.to_text import to_text
from bus.domain.policy import (
    MAX_CASE_CHARACTERS,
    MAX_REASON_CHARACTERS,
    PolicySettings,
)

QuestionKind = Literal[
    "search", "count", "export", "plates", "trajectory", "alarms", "alarm export", "preview",
    "evidence", "faces",
]  # fmt: skip
MAX_SENTENCE = 2_000  # of the text of a rule that is kept with the question


class ReasonMissing(CommandError):
    """The site asks for more than was said."""


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what he works on."""

    account: str
    issuer: str = "console"
    unit: str = ""  # as `bus.domain.visibility.Viewer` has it
    reason: str = ""
    case: str = ""


class PersonQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. `subject`: what restricts it, by the names of the API."""

    asker: Asker
    kind: QuestionKind
    subject: dict[str, str]
    names_somebody: bool


def question_about(
    asker: Asker, kind: QuestionKind, subject: Mapping[str, object], *, naming: str = "plate"
) -> PersonQuestion:
    """Names somebody where the part `naming` is not empty. Empty parts are left out."""
    said = {name: str(value) for name, value in subject.items() if value}
    return PersonQuestion(
        asker=asker, kind=kind, subject=said, names_somebody=bool(said.get(naming))
    )


def rule_sentence(rule: WatchCommand) -> str:
    """What it asks for, as a text."""
    parts = [f"{name}={','.join(values)}" for name, values in sorted(rule.match.items())]
    if rule.where is not None:
        parts.append(to_text(rule.where))
    return f"{rule.kind}: {'; '.join(parts)}"[:MAX_SENTENCE]


def check_reason(question: PersonQuestion, policy: PolicySettings) -> None:
    """Raises `ReasonMissing`."""
    asker = question.asker
    for field, text, most in (
        ("reason", asker.reason, MAX_REASON_CHARACTERS), ("case", asker.case, MAX_CASE_CHARACTERS),
    ):  # fmt: skip
        if len(text) > most:
            raise ReasonMissing(field, f"{field}: at most {most} characters", "text_length")
    if not (question.names_somebody and policy.requires_reason):
        return
    if not asker.reason.strip():
        raise ReasonMissing(
            "reason",
            "this site asks for a reason for questions that name somebody: choose a case in the"
            " console, or send the header X-Reason",
            NO_REASON,
        )  # fmt: skip
    if not asker.case.strip():
        raise ReasonMissing(
            "case",
            "this site asks for the number of a case: choose one in the console, or send the header"
            " X-Case",
            NO_CASE,
        )  # fmt: skip
