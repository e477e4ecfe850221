"""A question about somebody that is asked at a shell: its reason, kept before it is answered.

In: what is asked, why, the composed settings in `ctx.obj`. Out: nothing, or the program ends with a
sentence. Never: an answer.
"""

from __future__ import annotations

import typer

from alarm.asked_answer import fail
from alarm.shell_asker import ISSUER, shell_user
from bus.runtime import wall_clock
from monitor.questions.question import (
    Asker,
    PersonQuestion,
    QuestionKind,
    ReasonMissing,
    check_reason,
)
from monitor.questions.question_log import QuestionLog, QuestionsUnavailable

_OPTIONS = {"reason": "--reason", "case": "--case"}


def note_question(
    ctx: typer.Context, kind: QuestionKind, subject: dict[str, str], reason: str, case: str, *,
    names_somebody: bool = True,
) -> None:  # fmt: skip
    """Raises `typer.BadParameter`, `typer.Exit`."""
    asker = Asker(account=shell_user(), issuer=ISSUER, reason=reason, case=case)
    question = PersonQuestion(
        asker=asker, kind=kind, subject=subject, names_somebody=names_somebody
    )
    policy = ctx.obj.policy
    try:
        check_reason(question, policy)
        if names_somebody:
            kept = QuestionLog(ctx.obj.site.data_path, policy.questions_days)
            kept.add(question, wall_clock.now_ms())
    except ReasonMissing as error:
        option = _OPTIONS[error.field]
        text = "this site asks for it where somebody asks for a plate or a face"
        if error.code == "text_length":
            text = str(error)
        raise typer.BadParameter(text, param_hint=option) from error
    except QuestionsUnavailable as error:
        fail(f"databus: the question cannot be kept, and is not answered: {error}")
