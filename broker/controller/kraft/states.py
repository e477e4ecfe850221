"""The states of a replica of the metadata log and every way from one to another, as one table.

- **UNATTACHED**: a voter that knows no leader of its epoch. It waits for one or for its election
  time-out.
- **PROSPECTIVE**: a voter that asks whether it *would* win (KIP-996), in its old epoch, so that
  one that was cut off does not disturb a quorum that is well.
- **CANDIDATE**: a voter that asks for votes in a new epoch; it has voted for itself.
- **LEADER**: won its epoch; appends, answers fetches, advances the high watermark.
- **FOLLOWER**: a voter that fetches from the leader of its epoch.
- **OBSERVER**: fetches but has no vote; whether it knows a leader makes no difference to it.
- **RESIGNED**: led this epoch and does so no longer; it tells the others and votes for nobody in
  it. A restarted leader begins here, because it may have forgotten what it had promised.

In: a state and an event. Out: the next state, or a stop: a cell that is not in the table is a bug.
"""

from __future__ import annotations

from enum import Enum

from bus.errors import check


class Role(Enum):
    """What a replica is in its epoch."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    RESIGNED = "resigned"


class Event(Enum):
    """What may change a replica's state."""

    NEWER_EPOCH = "a newer epoch is known, its leader is not"
    LEADER_FOUND = "the leader of the epoch is known, and it is another"
    ELECTION_DUE = "nothing was heard of a leader for too long"
    WOULD_WIN = "a majority would vote for me"
    WON = "a majority has voted for me"
    LOST = "a majority will not vote for me, or is silent"
    RESIGN = "I may or can lead no longer"
    ADDED = "I am a voter now"
    REMOVED = "I am no voter any more"


_R, _E = Role, Event
VOTERS = (_R.UNATTACHED, _R.PROSPECTIVE, _R.CANDIDATE, _R.LEADER, _R.FOLLOWER, _R.RESIGNED)

TRANSITIONS: dict[tuple[Role, Event], Role] = {
    **{(role, _E.NEWER_EPOCH): _R.UNATTACHED for role in VOTERS},
    (_R.OBSERVER, _E.NEWER_EPOCH): _R.OBSERVER,
    **{(role, _E.LEADER_FOUND): _R.FOLLOWER for role in VOTERS},
    (_R.OBSERVER, _E.LEADER_FOUND): _R.OBSERVER,
    (_R.UNATTACHED, _E.ELECTION_DUE): _R.PROSPECTIVE,
    (_R.FOLLOWER, _E.ELECTION_DUE): _R.PROSPECTIVE,
    (_R.PROSPECTIVE, _E.WOULD_WIN): _R.CANDIDATE,
    (_R.PROSPECTIVE, _E.LOST): _R.UNATTACHED,
    (_R.CANDIDATE, _E.WON): _R.LEADER,
    (_R.CANDIDATE, _E.LOST): _R.PROSPECTIVE,
    (_R.LEADER, _E.RESIGN): _R.RESIGNED,
    (_R.OBSERVER, _E.ADDED): _R.UNATTACHED,
    **{(role, _E.REMOVED): _R.OBSERVER for role in VOTERS if role is not _R.LEADER},
}
"""Every legal cell. A leader that removes itself stays one until that is committed, then resigns.
A resigned replica leaves its epoch by hearing of, or beginning, a newer one."""


def next_role(role: Role, event: Event) -> Role:
    """The state after `event`; an illegal cell stops the process."""
    found = TRANSITIONS.get((role, event))
    check(found is not None, f"{role.name} cannot take {event.name}")
    return found or role
