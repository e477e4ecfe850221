"""Who acts, for the site epochs and confirmations that this process makes."""

from __future__ import annotations

import getpass
import socket

from bus.contracts.site_epoch import who_text


def own_name() -> str:
    """`user@host`, in the characters that an epoch may hold."""
    return who_text(getpass.getuser(), socket.gethostname())
