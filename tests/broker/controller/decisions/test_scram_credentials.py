"""Credentials of users: set, changed and removed, each user once in a request."""

from __future__ import annotations

import pytest

from broker.controller.decisions.scram_credentials import (
    CredentialChange,
    CredentialDeletion,
    CredentialUpsertion,
    alter_credentials,
)
from bus.errors import ErrorCode
from bus.security.sasl_server import LEAST_ITERATIONS, MOST_ITERATIONS, ScramMechanism, salted
from tests.broker.controller.decisions.world import ControlWorld

SALT = b"0123456789abcdef"
ONE, OTHER = ScramMechanism


def set_to(
    user: str, mechanism: int = ONE, iterations: int = LEAST_ITERATIONS
) -> CredentialUpsertion:
    return CredentialUpsertion(user, mechanism, iterations, SALT, b"salted")


def altered(world: ControlWorld, *changes: CredentialChange) -> dict[str, ErrorCode]:
    """The error of each user."""
    results = world.decide(alter_credentials(world.image, changes))
    return {
        user: ErrorCode.NONE if refusal is None else refusal.error for user, refusal in results
    }


def test_what_is_kept_of_a_password_is_not_the_password_salted() -> None:
    """Who reads the metadata cannot log in with it."""
    world = ControlWorld()
    key = salted(OTHER, "secret", SALT, LEAST_ITERATIONS)
    change = CredentialUpsertion("ann", OTHER, LEAST_ITERATIONS, SALT, key)
    assert altered(world, change) == {"ann": ErrorCode.NONE}
    held = world.image.scram[OTHER, "ann"]
    assert (held.salt, held.iterations) == (SALT, LEAST_ITERATIONS)
    assert {len(held.stored_key), len(held.server_key)} == {64}
    assert key not in (held.stored_key, held.server_key)


def test_a_credential_is_replaced_and_removed_and_the_other_one_stays() -> None:
    world = ControlWorld()
    altered(world, set_to("ann", ONE))
    altered(world, set_to("ann", OTHER))
    assert altered(world, set_to("ann", ONE, MOST_ITERATIONS)) == {"ann": ErrorCode.NONE}
    assert world.image.scram[ONE, "ann"].iterations == MOST_ITERATIONS
    assert altered(world, CredentialDeletion("ann", ONE)) == {"ann": ErrorCode.NONE}
    assert set(world.image.scram) == {(OTHER, "ann")}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (set_to("ann", ONE, LEAST_ITERATIONS - 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (set_to("ann", ONE, MOST_ITERATIONS + 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (set_to(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (set_to("ann", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (CredentialDeletion("ann", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (CredentialDeletion("ann", ONE), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_a_refused_user_keeps_no_other_from_being_changed(
    change: CredentialChange, error: ErrorCode
) -> None:
    world = ControlWorld()
    assert altered(world, change, set_to("bob")) == {change.user: error, "bob": ErrorCode.NONE}
    assert set(world.image.scram) == {(ONE, "bob")}


def test_a_user_who_is_named_twice_is_not_changed_at_all() -> None:
    """It is unknown which change was meant to be the last; Kafka refuses two mechanisms, too."""
    world = ControlWorld()
    told = altered(world, set_to("ann", ONE), set_to("ann", OTHER), set_to("bob"))
    assert told == {"ann": ErrorCode.DUPLICATE_RESOURCE, "bob": ErrorCode.NONE}
    assert set(world.image.scram) == {(ONE, "bob")}
