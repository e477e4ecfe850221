"""What a row of the registry says of its handler, against what the handler does."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers.registry import SERVED
from broker.handlers.services import PLANES, Plane, Services
from tests.broker.handlers.handler_source import planes, reachable


@pytest.mark.parametrize("key", SERVED)
def test_a_row_names_the_planes_that_its_handler_uses_and_no_other(key: int) -> None:
    """Whether this node is the controller is asked before a forwarded request is handled."""
    row = SERVED[key]
    of_dispatcher = Plane.CONTROL if row.forwarded else Plane(0)
    assert row.needs == planes(row.module) | of_dispatcher


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
    given = Services(1, part, part, part, part, part, part, part, part).only(needs)
    for plane, names in PLANES.items():
        for name in names:
            if plane in needs:
                assert getattr(given, name) is part
            else:
                with pytest.raises(RuntimeError, match=rf"uses {name}\.anything"):
                    _ = getattr(given, name).anything
    assert (given.metadata, given.clock, given.authorizer) == (part, part, part)
