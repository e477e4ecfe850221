"""The session of a connection: every state with every event, and throttles in any order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.principal import ANONYMOUS, Principal
from broker.security.security_protocol import SecurityProtocol
from broker.security.session import (
    TRANSITIONS,
    AuthenticationEvent,
    AuthenticationState,
    Session,
)
from bus.protocol.apis import APIS, ApiKey

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
STATE, EVENT = AuthenticationState, AuthenticationEvent
WITH_SASL = [one for one in SecurityProtocol if one.has_sasl]
WITHOUT = [one for one in SecurityProtocol if not one.has_sasl]

REPORTS: dict[AuthenticationEvent, Callable[[Session], None]] = {
    EVENT.MECHANISM_CHOSEN: lambda session: session.on_mechanism_chosen(),
    EVENT.SUCCEEDED: lambda session: session.on_authenticated(BOB),
    EVENT.FAILED: lambda session: session.on_failed(),
}


def session_in(state: AuthenticationState) -> Session:
    """A session whose client is alice once she is authenticated."""
    session = Session("10.0.0.1", "OUTSIDE", SecurityProtocol.SASL_SSL)
    if state in (STATE.AUTHENTICATED, STATE.REAUTHENTICATE):
        session.principal = ALICE
    session.state = state
    return session


@pytest.mark.parametrize(("state", "event"), list(product(STATE, EVENT)))
def test_each_event_in_each_state_goes_where_the_table_says_else_it_fails(
    state: AuthenticationState, event: AuthenticationEvent
) -> None:
    """Only a success changes the principal, and a failed session serves nothing any more."""
    session = session_in(state)
    before = session.principal
    REPORTS[event](session)
    assert session.state is TRANSITIONS.get((state, event), STATE.FAILED)
    is_success = event is EVENT.SUCCEEDED and session.state is STATE.AUTHENTICATED
    assert session.principal == (BOB if is_success else before)
    if session.state is STATE.FAILED:
        assert not any(map(session.serves, APIS))


@pytest.mark.parametrize("protocol", WITH_SASL)
def test_before_its_authentication_a_client_gets_nothing_but_a_handshake(
    protocol: SecurityProtocol,
) -> None:
    session = Session("10.0.0.1", "OUTSIDE", protocol)
    assert {key for key in APIS if session.serves(key)} == {
        ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE,
    }  # fmt: skip
    session.on_mechanism_chosen()
    assert {key for key in APIS if session.serves(key)} == {ApiKey.SASL_AUTHENTICATE}
    assert session.principal == ANONYMOUS
    session.on_authenticated(ALICE)
    assert all(map(session.serves, APIS))
    assert session.principal == ALICE


def test_the_principal_is_set_once_more_when_the_client_authenticates_again() -> None:
    """KIP-368: a connection may outlive its credentials."""
    session = session_in(STATE.AUTHENTICATED)
    session.on_mechanism_chosen()
    assert session.principal == ALICE
    assert {key for key in APIS if session.serves(key)} == {ApiKey.SASL_AUTHENTICATE}
    session.on_authenticated(BOB)
    assert (session.principal, session.state) == (BOB, STATE.AUTHENTICATED)


@pytest.mark.parametrize("protocol", WITHOUT)
@pytest.mark.parametrize("event", EVENT)
def test_without_sasl_everything_is_served_and_no_handshake_is_expected(
    protocol: SecurityProtocol, event: AuthenticationEvent
) -> None:
    """Who could report one has mixed up two connections: nobody becomes bob by that."""
    session = Session("10.0.0.1", "PLAINTEXT", protocol)
    assert all(map(session.serves, APIS))
    REPORTS[event](session)
    assert session.principal == ANONYMOUS
    assert session.state is STATE.FAILED


@given(st.lists(st.floats(0, 1e9, allow_nan=False)))
def test_the_longest_throttle_counts_in_whatever_order_they_come(times: list[float]) -> None:
    session = Session("10.0.0.1")
    for until in times:
        session.throttle(until)
    assert session.throttled_until == max(times, default=0.0)


@given(st.lists(st.sampled_from(list(EVENT)), max_size=8))
def test_nobody_is_authenticated_without_a_handshake_that_succeeded(
    events: list[AuthenticationEvent],
) -> None:
    """Whatever is reported in whatever order: AUTHENTICATED comes by a choice and a success."""
    session = Session("10.0.0.1", "OUTSIDE", SecurityProtocol.SASL_PLAINTEXT)
    seen: list[AuthenticationEvent] = []
    for event in events:
        REPORTS[event](session)
        seen.append(event)
        if session.state is STATE.AUTHENTICATED:
            assert seen[-2:] == [EVENT.MECHANISM_CHOSEN, EVENT.SUCCEEDED]
            assert EVENT.FAILED not in seen


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_a_login_and_a_certificate_are_asked_for_by_the_protocols_that_say_so(
    protocol: SecurityProtocol,
) -> None:
    assert protocol.has_sasl is ("SASL" in protocol.name)
    assert protocol.has_tls is ("SSL" in protocol.name)
