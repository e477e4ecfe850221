"""The roles of a replica of the metadata log and all transitions between them, as one table.

- **UNATTACHED**: a voter that knows no leader of its epoch. It waits for one, or for its election
  timeout.
- **PROSPECTIVE**: a voter that asks whether it *would* win (KIP-996), still in its old epoch, so
  that a node that was cut off does not disturb a healthy quorum.
- **CANDIDATE**: a voter that asks for votes in a new epoch; it has voted for itself.
- **LEADER**: won its epoch; appends, answers fetches, advances the high watermark.
- **FOLLOWER**: a voter that fetches from the leader of its epoch.
- **OBSERVER**: fetches but has no vote; its role does not depend on whether it knows a leader.
- **RESIGNED**: led this epoch and no longer does; it notifies the others and grants no vote in this
  epoch. A restarted leader begins here, because it may have forgotten votes it granted.

In: a role and an event. Out: the next role. Never: an unlisted transition; that is a bug and stops
the process.
"""

from __future__ import annotations

from enum import Enum

from bus.errors import check


class RaftRole(Enum):
    """The role of a replica in its epoch."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    RESIGNED = "resigned"


class RoleEvent(Enum):
    """An event that may change a replica's role."""

    NEWER_EPOCH = "a newer epoch is known, its leader is not"
    LEADER_FOUND = "the leader of the epoch is known, and it is another"
    ELECTION_DUE = "nothing was heard of a leader for too long"
    WOULD_WIN = "a majority would vote for me"
    WON = "a majority has voted for me"
    LOST = "a majority will not vote for me, or is silent"
    RESIGN = "I may or can lead no longer"
    ADDED = "I am a voter now"
    REMOVED = "I am no voter any more"


_R, _E = RaftRole, RoleEvent
VOTER_ROLES = (_R.UNATTACHED, _R.PROSPECTIVE, _R.CANDIDATE, _R.LEADER, _R.FOLLOWER, _R.RESIGNED)

TRANSITIONS: dict[tuple[RaftRole, RoleEvent], RaftRole] = {
    **{(role, _E.NEWER_EPOCH): _R.UNATTACHED for role in VOTER_ROLES},
    (_R.OBSERVER, _E.NEWER_EPOCH): _R.OBSERVER,
    **{(role, _E.LEADER_FOUND): _R.FOLLOWER for role in VOTER_ROLES},
    (_R.OBSERVER, _E.LEADER_FOUND): _R.OBSERVER,
    (_R.UNATTACHED, _E.ELECTION_DUE): _R.PROSPECTIVE,
    (_R.FOLLOWER, _E.ELECTION_DUE): _R.PROSPECTIVE,
    (_R.PROSPECTIVE, _E.WOULD_WIN): _R.CANDIDATE,
    (_R.PROSPECTIVE, _E.LOST): _R.UNATTACHED,
    (_R.CANDIDATE, _E.WON): _R.LEADER,
    (_R.CANDIDATE, _E.LOST): _R.PROSPECTIVE,
    (_R.LEADER, _E.RESIGN): _R.RESIGNED,
    (_R.OBSERVER, _E.ADDED): _R.UNATTACHED,
    **{(role, _E.REMOVED): _R.OBSERVER for role in VOTER_ROLES if role is not _R.LEADER},
}
"""All legal transitions. A leader that removes itself stays leader until that is committed, then
resigns. A resigned replica leaves its epoch when it learns of, or starts, a newer one."""


def next_role(role: RaftRole, event: RoleEvent) -> RaftRole:
    """The role after `event`; an illegal transition stops the process."""
    found = TRANSITIONS.get((role, event))
    check(found is not None, f"{role.name} cannot take {event.name}")
    return found or role
