"""What a row of the registry says of its handler, against what the handler does."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from broker.handlers.registry import SERVED
from broker.handlers.services import PLANES, Plane, Services
from broker.security.resource_operations import CLUSTER_ACTION
from bus.protocol.apis import APIS, ApiKey
from tests.broker.handlers.handler_source import CONTEXT, FOLDER, asks, planes, reachable


@pytest.mark.parametrize("key", SERVED)
def test_a_row_names_the_planes_that_its_handler_uses_and_no_other(key: int) -> None:
    """Whether this node is the controller is asked before a forwarded request is handled."""
    row = SERVED[key]
    of_dispatcher = Plane.CONTROL if row.forwarded else Plane(0)
    assert row.needs == planes(row.module) | of_dispatcher


@pytest.mark.parametrize("key", SERVED)
def test_a_row_names_the_permissions_that_its_handler_asks_for_and_no_other(key: int) -> None:
    """LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown never asked."""
    assert set(SERVED[key].asks) == asks(SERVED[key].module)
    assert len(set(SERVED[key].asks)) == len(SERVED[key].asks)


def test_only_what_comes_before_a_client_can_say_who_it_is_is_for_everybody() -> None:
    """And what is the matter of a token's owner and renewers, whom no ACL names."""
    assert [key for key, row in SERVED.items() if not row.asks] == [
        ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE,
        ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    ]  # fmt: skip


def test_what_nodes_send_to_each_other_asks_for_the_clusters_own_permission() -> None:
    """An API that no client sends; Fetch has both kinds of readers."""
    for key, row in SERVED.items():
        if not {"broker", "mirror"}.intersection(APIS[key].listeners):
            assert row.asks == (CLUSTER_ACTION,), row.module


AROUND = ("authorizer", "authorize", "authorize_by_resource_type", "principal")
"""What the context asks for a handler."""
NAMES_THE_PRINCIPAL = {
    "forward": "sends it in the envelope",
    "k01_fetch": "whether a session has another one by now",
    "k29_describe_acls": "of an ACL",
    "k30_create_acls": "of an ACL",
    "k38_create_delegation_token": "who owns the token",
    "k39_renew_delegation_token": "whether it owns the token",
    "k40_expire_delegation_token": "the same",
    "k41_describe_delegation_token": "the same",
    "token_requests": "how it has logged in",
    "k36_sasl_authenticate": "it must stay the same when a session is renewed",
}


def test_no_handler_goes_around_its_context() -> None:
    """Six calls did: they handed the authorizer a principal, and no address."""
    found = {
        (path.stem, node.attr)
        for path in FOLDER.glob("*.py")
        if path.stem not in CONTEXT
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in AROUND
    }
    assert found == {(module, "principal") for module in NAMES_THE_PRINCIPAL}


def test_the_walk_goes_through_other_files_and_through_what_is_only_passed_on() -> None:
    """Else it would find nothing where a handler hides it one call away."""
    found = reachable("k01_fetch")
    assert ("metadata_fetch", "handle_metadata_fetch") in found
    assert ("partition_fetch", "_read_cold") in found
    assert ("alter_configs", "_is_authorized") in reachable("k33_alter_configs")
    assert ("topics", "automatic_topic") in reachable("k03_metadata")


@pytest.mark.parametrize("needs", [Plane(bits) for bits in range(8)])
def test_a_plane_that_a_row_does_not_name_is_not_there_for_its_handler(needs: Plane) -> None:
    part: Any = object()
    given = Services(1, *[part] * 11).only(needs)
    for plane, names in PLANES.items():
        for name in names:
            if plane in needs:
                assert getattr(given, name) is part
            else:
                with pytest.raises(RuntimeError, match=rf"uses {name}\.anything"):
                    _ = getattr(given, name).anything
    assert (given.metadata, given.clock, given.authorizer) == (part, part, part)
