"""Whose a node is, by its path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.zk.znode_acls import (
    CREATOR_ALL,
    OPEN,
    READ_BY_ALL,
    default_acls,
    is_of_brokers_alone,
)

PATHS = st.lists(st.sampled_from(["config", "users", "brokers", "x", "consumers"]), min_size=1, max_size=4).map(
    lambda names: "/" + "/".join(names)
)


@given(PATHS)
def test_without_a_login_everything_is_everybodys(path: str) -> None:
    assert default_acls(path, is_secure=False) == OPEN


@given(PATHS)
def test_with_a_login_only_the_place_of_old_consumers_is_open(path: str) -> None:
    assert (default_acls(path, is_secure=True) == OPEN) == (path == "/consumers")


@pytest.mark.parametrize("path", ["/config/users", "/config/users/a/clients/b", "/config/brokers/1",
                                  "/delegation_token/tokens/x"])  # fmt: skip
def test_what_one_could_log_in_with_is_read_by_nobody_else(path: str) -> None:
    assert default_acls(path, is_secure=True) == (CREATOR_ALL,)


@pytest.mark.parametrize("path", ["/", "/controller", "/config/topics/t", "/delegation_token", "/consumers/old"])
def test_everything_else_is_read_by_all_and_changed_by_the_brokers(path: str) -> None:
    assert default_acls(path, is_secure=True) == (CREATOR_ALL, READ_BY_ALL)


def test_a_root_is_the_brokers_where_nobody_else_has_a_node() -> None:
    assert is_of_brokers_alone(["zookeeper"])
    assert is_of_brokers_alone(["zookeeper", "brokers", "controller", "consumers", "kafka-acl"])
    assert not is_of_brokers_alone(["zookeeper", "hbase"])
