"""States of a classic consumer group and the transitions between them.

    Empty --first member--> PreparingRebalance --all joined--> CompletingRebalance
    CompletingRebalance --leader's assignment stored--> Stable
    Stable, CompletingRebalance --member joins, leaves, changes or dies--> PreparingRebalance
    PreparingRebalance --no member is left--> Empty
    every state --deleted, expired or unloaded--> Dead

`ClassicGroup` changes its state only along the table below.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """A group's state, by the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
