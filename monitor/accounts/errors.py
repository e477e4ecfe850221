"""The errors of accounts; their texts are for the person who reads them."""

from __future__ import annotations


class AccountError(Exception):
    """A change of the accounts that cannot be made. `fault` names why, for texts of a page."""

    def __init__(self, text: str, fault: str = "") -> None:
        super().__init__(text)
        self.fault = fault


class AccountsUnavailable(Exception):
    """The file of accounts, sessions and links cannot be used; the text says what to do.

    No log-in succeeds while it is raised.
    """
