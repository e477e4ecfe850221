"""Who may read the pages of a process: its metrics, its status. Pure.

In: the `Authorization` header of a request, the tokens that count. Out: yes or no, and the sentence
of a refusal. Never: a token in a sentence.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable

SCHEME = "Bearer"
REFUSED = (
    "this page asks for a token: send the header Authorization: Bearer TOKEN with the token of"
    " [security] page_token"
)
REFUSED_ZH = (
    "此页面需要令牌：请发送请求头 Authorization: Bearer TOKEN，令牌见 [security] page_token。"
)
_TOKEN = re.compile(r"[!-~]+")  # visible ASCII: what a header carries as it is


def check_page_token(token: str) -> None:
    """Refuse what no header can carry: then nobody would be let in. Raises `ValueError`."""
    if token and not _TOKEN.fullmatch(token):
        raise ValueError(
            "a token has letters, digits and signs of ASCII only, and no blank; make one with:"
            " openssl rand -base64 32"
        )


def bearer_token(authorization: str) -> str:
    """The token of the header's value; empty where there is none."""
    scheme, _, given = authorization.strip().partition(" ")
    return given.strip() if scheme.lower() == SCHEME.lower() else ""


def is_one_of(given: str, tokens: Iterable[str]) -> bool:
    """Whether what came is one of the tokens; compared in constant time. An empty one is none."""
    sent = given.encode("utf-8", "surrogatepass")
    found = False
    for known in tokens:
        found |= bool(given and known) and hmac.compare_digest(known.encode(), sent)
    return found


def may_read_pages(authorization: str, page_token: str) -> bool:
    """Whether the header's value lets its sender in. Without a token set everybody may."""
    return not page_token or is_one_of(bearer_token(authorization), (page_token,))


def bearer_headers(token: str) -> dict[str, str]:
    """What a reader of pages sends; nothing where it has no token."""
    return {"Authorization": f"{SCHEME} {token}"} if token else {}
