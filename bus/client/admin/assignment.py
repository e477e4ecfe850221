"""A balanced assignment of replicas, computed from the present one with the fewest moves (pure).

In: who holds what now, the brokers that may hold replicas with their racks, optionally another
replication factor. Out: the replicas of every partition, preferred leader first.
Never: random numbers; the same question has the same answer, so that a plan can be reviewed and
made again.

In this order: replicas leave brokers that are not wanted; each partition gets its replication
factor; replicas of one partition stand in as many racks as there are; every broker holds as many
replicas as any other, give or take one, as far as the racks allow; every broker is the preferred
leader of as many partitions as any other, give or take one. Only the last step changes nothing on
disk. Moves are found along shortest paths: where an overfull broker has nothing the emptiest may
take, a third broker passes something on (T-ASG-01, T-RA-01).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from bus.client.model import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]
Replicas = dict[TopicPartition, list[int]]
_Held = dict[str, dict[int, None]]
"""Partitions of each topic, in the order they came: dicts, because the order decides."""


class NotAssignable(Exception):
    """No assignment fulfils what was asked; the text says why and what to change."""


def balanced(
    current: Assignment,
    racks: Mapping[int, str | None],
    *,
    replication_factor: int | None = None,
    others: Assignment | None = None,
) -> Replicas:
    """The new replicas of every partition of `current`.

    `racks` names the brokers that may be used; `others` are partitions that stay where they are
    and count as load.
    """
    largest = replication_factor or max((len(held) for held in current.values()), default=1)
    if largest > len(racks):
        raise NotAssignable(
            f"{largest} replicas need {largest} brokers, but only {len(racks)} may be used; "
            "name more brokers or a smaller replication factor"
        )
    if replication_factor is not None and replication_factor < 1:
        raise NotAssignable("a replication factor is at least 1")
    work = _Balancer(current, racks, others or {})
    for place in work.places:
        work.fit(place, replication_factor or len(current[place]))
    work.spread_racks()
    work.level_replicas()
    work.level_leaders()
    return work.replicas


def moves(before: Assignment, after: Assignment) -> int:
    """How many replicas have to be copied."""
    return sum(
        len(set(replicas) - set(before.get(place, ()))) for place, replicas in after.items()
    )


def changed(before: Assignment, after: Replicas) -> Replicas:
    """Only the partitions whose replicas or their order differ."""
    return {
        place: replicas
        for place, replicas in after.items()
        if list(before.get(place, ())) != replicas
    }


class _Balancer:
    """The assignment while it is being changed. Invariant: `load` counts `replicas` and others."""

    def __init__(
        self, current: Assignment, racks: Mapping[int, str | None], others: Assignment
    ) -> None:
        self.places = sorted(current)
        self.replicas: Replicas = {place: list(current[place]) for place in self.places}
        self.brokers = sorted(racks)
        self.racks = {broker: racks[broker] or f"\0{broker}" for broker in self.brokers}
        self.rack_count = len(set(self.racks.values()))
        self.load: Counter[int] = Counter(dict.fromkeys(self.brokers, 0))
        self.leads: Counter[int] = Counter(dict.fromkeys(self.brokers, 0))
        self.held: dict[int, _Held] = {broker: {} for broker in self.brokers}
        for replicas in others.values():
            self.load.update(b for b in replicas if b in self.load)
            self.leads.update(b for b in replicas[:1] if b in self.leads)
        for place, replicas in self.replicas.items():
            for broker in replicas:
                if broker in self.held:
                    self._add_load(broker, place)

    # -- one partition ------------------------------------------------------------------

    def fit(self, place: TopicPartition, factor: int) -> None:
        """Only wanted brokers, and as many as asked; a replica that leaves is replaced in place."""
        replicas = self.replicas[place]
        for at, broker in enumerate(replicas):
            if broker not in self.racks:
                replicas[at] = -1
        while len(replicas) > factor:
            self._drop_worst(place)
        replicas += [-1] * (factor - len(replicas))
        for at, broker in enumerate(replicas):
            if broker < 0:
                self._put(place, at, self._best_for(place))

    def _drop_worst(self, place: TopicPartition) -> None:
        """An empty seat first; else a double rack, then the fullest broker; never the leader."""
        replicas = self.replicas[place]
        if -1 in replicas:
            replicas.remove(-1)
            return
        seats = Counter(self.racks[broker] for broker in replicas)
        worst = max(replicas[1:], key=lambda b: (seats[self.racks[b]], self.load[b], b))
        replicas.remove(worst)
        self._remove_load(worst, place)

    def _best_for(self, place: TopicPartition) -> int:
        """A broker that has no replica yet: least crowded rack, then least load."""
        replicas = self.replicas[place]
        seats = Counter(self.racks[b] for b in replicas if b >= 0)
        free = [broker for broker in self.brokers if broker not in replicas]
        return min(free, key=lambda b: (seats[self.racks[b]], self.load[b], b))

    def _put(self, place: TopicPartition, at: int, broker: int) -> None:
        old = self.replicas[place][at]
        if old in self.held:
            self._remove_load(old, place)
        self.replicas[place][at] = broker
        self._add_load(broker, place)

    def _add_load(self, broker: int, place: TopicPartition) -> None:
        self.load[broker] += 1
        self.held[broker].setdefault(place[0], {})[place[1]] = None

    def _remove_load(self, broker: int, place: TopicPartition) -> None:
        self.load[broker] -= 1
        del self.held[broker][place[0]][place[1]]

    # -- racks --------------------------------------------------------------------------

    def spread_racks(self) -> None:
        """As many racks per partition as there are, by replacing replicas of crowded racks."""
        for place in self.places:
            replicas = self.replicas[place]
            while True:
                seats = Counter(self.racks[broker] for broker in replicas)
                most = -(-len(replicas) // self.rack_count)
                crowded = [b for b in replicas if seats[self.racks[b]] > most]
                racks_used = len(seats)
                if not crowded and racks_used < min(self.rack_count, len(replicas)):
                    crowded = [b for b in replicas if seats[self.racks[b]] > 1]
                free = [
                    b
                    for b in self.brokers
                    if b not in replicas and seats[self.racks[b]] < most
                    and (seats[self.racks[b]] == 0 or racks_used == self.rack_count)
                ]
                if not crowded or not free:
                    break
                leaving = max(crowded, key=lambda b: (self.load[b], replicas.index(b)))
                coming = min(free, key=lambda b: (seats[self.racks[b]], self.load[b], b))
                self._put(place, replicas.index(leaving), coming)

    def _rack_allows(self, place: TopicPartition, old: int, new: int) -> bool:
        """Whether the exchange leaves the partition in no fewer racks."""
        if self.racks[old] == self.racks[new]:
            return True
        seats = Counter(self.racks[broker] for broker in self.replicas[place])
        return seats[self.racks[new]] < seats[self.racks[old]]

    # -- levelling ----------------------------------------------------------------------

    def level_replicas(self) -> None:
        """Equal loads, give or take one, along shortest chains of moves."""

        def step(giver: int, taker: int) -> TopicPartition | None:
            return self._movable(giver, taker)

        def move(place: TopicPartition, giver: int, taker: int) -> None:
            self._put(place, self.replicas[place].index(giver), taker)

        _level(self.brokers, self.load, step, move)

    def _movable(self, giver: int, taker: int) -> TopicPartition | None:
        """What `giver` hands on: of the topic it holds most of compared with the taker."""
        mine, its = self.held[giver], self.held[taker]
        nothing: dict[int, None] = {}
        for topic in sorted(mine, key=lambda t: (len(its.get(t, nothing)) - len(mine[t]), t)):
            theirs = its.get(topic, nothing)
            for index in mine[topic]:
                if index not in theirs and self._rack_allows(
                    TopicPartition(topic, index), giver, taker
                ):
                    return TopicPartition(topic, index)
        return None

    def level_leaders(self) -> None:
        """Equal numbers of preferred leaders, by changing the order only."""
        first: dict[int, dict[TopicPartition, None]] = {b: {} for b in self.brokers}
        for place, replicas in self.replicas.items():
            first[replicas[0]][place] = None
            self.leads[replicas[0]] += 1

        def step(giver: int, taker: int) -> TopicPartition | None:
            return next((p for p in first[giver] if taker in self.replicas[p]), None)

        def swap(place: TopicPartition, giver: int, taker: int) -> None:
            replicas = self.replicas[place]
            at = replicas.index(taker)
            replicas[0], replicas[at] = replicas[at], replicas[0]
            del first[giver][place]
            first[taker][place] = None
            self.leads[giver] -= 1
            self.leads[taker] += 1

        _level(self.brokers, self.leads, step, swap)


def _level(
    brokers: Sequence[int],
    load: Counter[int],
    step: Callable[[int, int], TopicPartition | None],
    move: Callable[[TopicPartition, int, int], None],
) -> None:
    """Move along shortest chains from the fullest to the emptiest until they differ by one.

    `move` updates `load`. A chain ends; every chain lowers the sum of squared loads.
    """
    while True:
        chain = _chain(brokers, load, step)
        if chain is None:
            return
        # From the far end on, so that no broker holds a partition twice on the way.
        for giver, taker in reversed(chain):
            place = step(giver, taker)
            if place is None:
                return
            move(place, giver, taker)


def _chain(
    brokers: Sequence[int],
    load: Counter[int],
    step: Callable[[int, int], TopicPartition | None],
) -> list[tuple[int, int]] | None:
    """The shortest chain of hand-overs from a full broker to one with at least two fewer."""
    for start in sorted(brokers, key=lambda b: (-load[b], b)):
        emptier = [b for b in brokers if load[b] <= load[start] - 2]
        if not emptier:
            continue
        came: dict[int, int] = {start: start}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for there in sorted(brokers, key=lambda b: (load[b], b)):
                if there in came or step(here, there) is None:
                    continue
                came[there] = here
                if load[there] <= load[start] - 2:
                    return _path(came, there)
                queue.append(there)
    return None


def _path(came: Mapping[int, int], end: int) -> list[tuple[int, int]]:
    path = []
    while came[end] != end:
        path.append((came[end], end))
        end = came[end]
    return path[::-1]
