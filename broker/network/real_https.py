"""Documents over HTTPS, fetched on a thread.

In: URLs. Out: their bytes. Raises HttpsUnavailable. Never: the loop.
"""

from __future__ import annotations

import asyncio
import ssl

from broker.network.port import HttpsUnavailable
from bus.runtime.https_call import HttpsCallError, https_call

TIMEOUT_S = 10.0
"""Of a whole fetch."""
MOST_BYTES = 1 << 20


class RealHttps:
    """Implements `HttpsPort`."""

    async def fetch(self, url: str, context: ssl.SSLContext) -> bytes:
        """Of a server whose certificate `context` accepts."""

        def fetched() -> bytes:
            return https_call(url, context, timeout_s=TIMEOUT_S, most_bytes=MOST_BYTES)

        try:
            return await asyncio.get_running_loop().run_in_executor(None, fetched)
        except HttpsCallError as error:
            raise HttpsUnavailable(str(error)) from None
