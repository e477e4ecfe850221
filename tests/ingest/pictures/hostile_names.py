"""Names of pictures that a stranger may ask for, and that edge and console both answer with 404."""

from __future__ import annotations

HOSTILE_NAMES = (
    "none.png",
    "..%2f..%2fetc/passwd",
    "%2e%2e/console/accounts.db",
    "%2e%2e/register.json",
    "a/../../console/secret.png",
    "%2fetc/passwd",
    "/etc/passwd",
    ".hidden.png",
    "a//b.png",
    "%00.png",
    "%E8%BD%A6.png",
    f"{'a' * 300}.png",
    "/".join(["a"] * 9),
)
