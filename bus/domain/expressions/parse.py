"""The text of a rule becomes a tree, or an error under the character it concerns. Pure.

In: any text. Out: a tree that `check_expression` takes, or `ExpressionError` with a column. Never:
another exception; time that grows faster than the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from bus.contracts.expressions import Expression
from bus.domain.expressions.builder import Placed, TreeBuilder
from bus.domain.expressions.check import check_expression
from bus.domain.expressions.grammar import GRAMMAR, WORDS
from bus.domain.expressions.tree import ExpressionError

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

MAX_TEXT_CHARACTERS = 20_000
_SHOWN_EXPECTED = 12  # beyond it an error is not read


def parse(text: str, kind: str) -> Expression:
    """The tree of a rule for this kind of data. Raises `ExpressionError`."""
    from lark.exceptions import UnexpectedInput  # 60 ms that only who writes a rule needs

    if len(text) > MAX_TEXT_CHARACTERS:
        raise ExpressionError(
            f"longer than {MAX_TEXT_CHARACTERS} characters; make several rules of it",
            "too_long",
            MAX_TEXT_CHARACTERS + 1,
        )
    try:
        found: Placed = _parser(kind).parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _explained(error, text) from None
    try:
        check_expression(kind, found.node)
    except ExpressionError as error:
        raise error.at(found.column) from None
    return found.node


@lru_cache(maxsize=8)
def _parser(kind: str) -> Lark:
    from lark import Lark

    return Lark(
        GRAMMAR, parser="lalr", maybe_placeholders=True, keep_all_tokens=False,
        transformer=TreeBuilder(kind),
    )  # fmt: skip


def _explained(error: UnexpectedInput, text: str) -> ExpressionError:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    at: int = len(text)
    expected: set[str] = set()
    if isinstance(error, UnexpectedCharacters):
        at, expected = error.pos_in_stream or 0, set(error.allowed or ())
    elif isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
        if error.token.type != "$END" and error.token.start_pos is not None:
            at = error.token.start_pos
    if text[at : at + 1] in ('"', "“") and "STRING" in expected:
        return ExpressionError(
            "the text that begins here has no closing quotation mark", "unclosed", at + 1
        )
    words = sorted({WORDS.get(name, name.lower()) for name in expected})
    found = ascii(text[at]) if at < len(text) else "the end"
    if at < len(text) and text[at].isprintable():
        found = f"“{text[at]}”"
    return ExpressionError(
        f"{found} is not expected here; expected: {', '.join(words[:_SHOWN_EXPECTED])}",
        "unexpected",
        at + 1,
    )
