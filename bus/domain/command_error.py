"""Why a command, or a question about somebody, is refused. Pure."""

from __future__ import annotations


class CommandError(ValueError):
    """`field` names the part at fault, `code` what is wrong with it, for other languages."""

    def __init__(self, field: str, text: str, code: str) -> None:
        super().__init__(text)
        self.field = field
        self.code = code


def check_length(field: str, text: str, limit: int) -> None:
    """Raises `CommandError`."""
    if len(text) > limit:
        raise CommandError(field, f"at most {limit} characters", "text_length")
