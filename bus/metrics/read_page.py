"""Asks another process for one of its pages.

In: an address, the token that its pages ask for. Out: the body. Never: a proxy; the token sent on
to where an answer redirects.
"""

from __future__ import annotations

from bus.security.page_token import bearer_headers

MAX_PAGE_BYTES = 32 << 20


def read_page(
    url: str, timeout_s: float, token: str = "", max_bytes: int = MAX_PAGE_BYTES
) -> bytes:
    """The body of a GET, as far as `max_bytes`. Blocking. Raises `OSError` for anything but a 2xx,
    `ValueError` for what is no address, `http.client.HTTPException` for what is no answer."""
    # Imported here: six megabytes, and what is watched by addresses of its own needs none of it.
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url)
    for name, value in bearer_headers(token).items():
        request.add_unredirected_header(name, value)
    with opener.open(request, timeout=timeout_s) as reply:
        body: bytes = reply.read(max_bytes)
        return body
