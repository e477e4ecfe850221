"""One request over HTTPS, bounded in time and size, for whoever may wait for it.

In: an URL, a form to post. Out: the answer's body. Raises HttpsCallError, whose text has nothing of
what was sent. Never: another host than the URL's (no redirects, no proxies), or an answer that is
longer than wanted, or later.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

OK = 200


class HttpsCallError(Exception):
    """There is no answer that can be used; the text says why, fit for an operator.

    `status` is the server's, if it has answered."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def https_call(
    url: str,
    context: ssl.SSLContext,
    *,
    timeout_s: float,
    most_bytes: int,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """GET, or POST of a form. Blocks for `timeout_s` at most, and for as long as the system's
    resolver takes for a name."""
    call = _call(url, context, timeout_s, most_bytes, form, headers or {})
    # On a thread of its own: the caller's may have a loop, and a deadline for the whole of a call,
    # however slowly bytes come, needs one.
    with ThreadPoolExecutor(1, thread_name_prefix="https") as thread:
        return thread.submit(asyncio.run, call).result()


async def _call(
    url: str,
    context: ssl.SSLContext,
    timeout_s: float,
    most_bytes: int,
    form: Mapping[str, str] | None,
    headers: Mapping[str, str],
) -> bytes:
    import httpx  # a fifth of a second of CPU; few call

    method = "GET" if form is None else "POST"
    data = None if form is None else dict(form)
    sent = {"Accept-Encoding": "identity", **headers}
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx.AsyncClient(verify=context, trust_env=False, timeout=None) as client,
            client.stream(method, url, data=data, headers=sent) as answer,
        ):
            body = bytearray()
            async for piece in answer.aiter_raw():  # as it came: nothing unpacks to gigabytes
                body += piece
                if len(body) > most_bytes:
                    raise HttpsCallError(f"the answer has more than {most_bytes} bytes")
            if answer.status_code != OK:
                raise HttpsCallError(
                    f"the server answers with status {answer.status_code}", answer.status_code
                )
            return bytes(body)
    except TimeoutError:
        raise HttpsCallError(f"there was no whole answer within {timeout_s:g} seconds") from None
    except ExceptionGroup as errors:  # of the attempts to connect
        raise HttpsCallError(f"no connection: {errors.exceptions[0]}") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise HttpsCallError(str(error) or type(error).__name__) from None
