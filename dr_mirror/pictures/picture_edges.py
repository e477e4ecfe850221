"""Copies one picture from an edge of the source to an edge of the target, over HTTP.

In: two addresses, a token, names. Out: `TriedPicture`, `PictureCheck`. Bounds: `TIMEOUT_S`,
`MAX_BYTES`. Core: `dr_mirror.pictures.plan.pictures`. Never: a redirect followed, a proxy used, a
picture called copied that was not read back from the target's store with the source's digest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus

import httpx

from bus.contracts.picture_digest import (
    REPR_DIGEST,
    WANT_REPR_DIGEST,
    WANTED,
    digest_header,
    digest_in,
    digest_of,
)
from bus.contracts.pictures import PICTURES_PREFIX
from dr_mirror.pictures.plan.pictures import (
    CopyOutcome,
    PictureCheck,
    RetainedPicture,
    TriedPicture,
)

TIMEOUT_S = 10.0
PICTURE_S = 60.0
"""One picture over a slow link."""
MAX_BYTES = 32 << 20
MAX_DETAIL = 200
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class _Away(Exception):
    """An edge does not answer as it should; the text says which and why."""


class PictureEdges:
    """Any number of threads. `on_link(size)` is called with what came over the link, and returns
    when more may."""

    def __init__(
        self, source_url: str, target_url: str, token: str, on_link: Callable[[int], None]
    ) -> None:
        self._source, self._target = source_url.rstrip("/"), target_url.rstrip("/")
        self._on_link = on_link
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(timeout=TIMEOUT_S, trust_env=False, headers=headers)

    def close(self) -> None:
        """Close the connections; a picture under way ends as `AWAY`."""
        self._client.close()

    def copy(self, name: str) -> TriedPicture:
        """Bring it to the target, unless it is there."""
        try:
            return self._copy(name)
        except (_Away, httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            # RuntimeError: the client was closed meanwhile
            return TriedPicture(name, CopyOutcome.AWAY, detail=_text(error))

    def check(self, picture: RetainedPicture) -> PictureCheck:
        """Compare what the target's store has with what was copied."""
        try:
            there = self._digest(self._target, picture.name)
        except (_Away, httpx.HTTPError, httpx.InvalidURL, RuntimeError):
            return PictureCheck.AWAY
        if there is None:
            return PictureCheck.GONE
        return PictureCheck.EQUAL if there == picture.digest else PictureCheck.DIFFERS

    def _copy(self, name: str) -> TriedPicture:
        there = self._digest(self._target, name)
        if there is not None:
            return self._present(name, there)
        data = self._get(name)
        if data is None:
            return TriedPicture(name, CopyOutcome.ABSENT, detail="the source has no such picture")
        digest = digest_of(data)
        refusal = self._put(name, data, digest)
        if refusal is not None:
            return refusal
        if self._digest(self._target, name) != digest:
            detail = "it was taken, and reads otherwise from the target's store"
            return TriedPicture(name, CopyOutcome.OTHER, digest, len(data), detail)
        return TriedPicture(name, CopyOutcome.COPIED, digest, len(data))

    def _present(self, name: str, there: bytes) -> TriedPicture:
        """It is at the target; where the source has it no more, nothing can be said against it."""
        at_source = self._digest(self._source, name)
        if at_source is None or at_source == there:
            return TriedPicture(name, CopyOutcome.PRESENT, there)
        return TriedPicture(
            name, CopyOutcome.OTHER, at_source, detail="the target has another one of that name"
        )

    def _digest(self, url: str, name: str) -> bytes | None:
        """What an edge reads from its store; None: it has no such picture."""
        answer = self._client.head(
            url + PICTURES_PREFIX + name, headers={WANT_REPR_DIGEST: WANTED}
        )
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        digest = digest_in(answer.headers.get(REPR_DIGEST, ""))
        if answer.status_code != HTTPStatus.OK or digest is None:
            raise _Away(f"{url} answers {_answer(answer.status_code)}")
        return digest

    def _get(self, name: str) -> bytes | None:
        """The source's bytes; None: it has none. Raises _Away for half a picture."""
        data, until_s = bytearray(), time.monotonic() + PICTURE_S
        address = self._source + PICTURES_PREFIX + name
        with self._client.stream("GET", address, headers={WANT_REPR_DIGEST: WANTED}) as answer:
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return None
            if answer.status_code != HTTPStatus.OK:
                raise _Away(f"{self._source} answers {_answer(answer.status_code)}")
            for piece in answer.iter_raw():
                data += piece
                if len(data) > MAX_BYTES or time.monotonic() > until_s:
                    raise _Away(f"{self._source}: {name} is too large or comes too slowly")
        self._on_link(len(data))
        if digest_in(answer.headers.get(REPR_DIGEST, "")) != digest_of(bytes(data)):
            raise _Away(f"{self._source}: {name} did not come as it is there")
        return bytes(data)

    def _put(self, name: str, data: bytes, digest: bytes) -> TriedPicture | None:
        """None: the target has it now."""
        answer = self._client.put(
            self._target + PICTURES_PREFIX + name, content=data,
            headers={REPR_DIGEST: digest_header(digest)}, timeout=PICTURE_S,
        )  # fmt: skip
        if answer.is_success:
            return None
        detail = f"{self._target} answers {answer.status_code}: {answer.text[:MAX_DETAIL]}"
        if answer.status_code == HTTPStatus.CONFLICT:
            return TriedPicture(name, CopyOutcome.OTHER, digest, len(data), detail)
        if answer.status_code in _REFUSED:
            return TriedPicture(name, CopyOutcome.REFUSED, digest, len(data), detail)
        raise _Away(f"{self._target} answers {_answer(answer.status_code)}")


def _answer(status: int) -> str:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"{status}: mirror.pictures_token has to be one of its [edge] mirror_tokens"
    if status == HTTPStatus.OK:
        return f"without the header {REPR_DIGEST}: it is older than this mirror"
    return str(status)


def _text(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:MAX_DETAIL]
