"""The way of a running site from open to closed, as decisions: what may be done now, what keeps it
from going on. Pure.

In: what the brokers say they are at, what a machine has recorded, who came in plain. Out: stages,
sentences. Never: a file, a client, a process.

    OPEN · BOTH · BROKERS · PROCESSES · CLOSED

Each stage is recorded first and carried out then, broker by broker: whoever is killed in between
finds the record and finishes it. Nodes work together if they are at the same stage or at two that
follow each other; nothing that is decided here leads anywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deploy.secure.broker_keys import ConversionStage

LEVELS: Mapping[ConversionStage, int] = {
    ConversionStage.OPEN: 0,
    ConversionStage.BOTH: 1,
    ConversionStage.BROKERS: 2,
    ConversionStage.PROCESSES: 2,
    ConversionStage.CLOSED: 3,
}
"""Of a broker's listeners; processes that log in change nothing there."""


@dataclass(frozen=True, slots=True)
class PlainClient:
    """Who came without TLS: at which broker, how many seconds ago."""

    broker_id: int
    listener: str
    host: str
    client_id: str
    age_s: float

    @property
    def text(self) -> str:
        """For a person."""
        return (
            f"{self.client_id or 'a client without a name'} from {self.host}, {self.age_s:.0f} s"
            f" ago at broker {self.broker_id} ({self.listener})"
        )


@dataclass(frozen=True, slots=True)
class PlainClientReport:
    """What one broker says of them; `watched_s`: since it has started."""

    broker_id: int
    watched_s: float
    clients: tuple[PlainClient, ...] = ()


def following(stage: ConversionStage) -> ConversionStage | None:
    """The next stage; None where the site is closed."""
    return ConversionStage(stage + 1) if stage < ConversionStage.CLOSED else None


def preceding(stage: ConversionStage) -> ConversionStage | None:
    """The stage before; None where there is no way back: a closed site stays closed."""
    if stage in (ConversionStage.OPEN, ConversionStage.CLOSED):
        return None
    return ConversionStage(stage - 1)


def may_work_together(stages: Iterable[ConversionStage]) -> bool:
    """Whether brokers at these stages reach each other."""
    levels = [LEVELS[one] for one in stages]
    return max(levels, default=0) - min(levels, default=0) <= 1


def late_brokers(
    observed: Mapping[int, ConversionStage], stage: ConversionStage
) -> tuple[int, ...]:
    """Those that do not run with what is recorded, in the order in which they are restarted."""
    return tuple(
        sorted(number for number, at in observed.items() if LEVELS[at] != LEVELS[stage])
    )


def waiting_for(
    observed: Mapping[int, ConversionStage], recorded: ConversionStage
) -> tuple[int, ...]:
    """Those that have not come as far as this machine's record. Others may be ahead: their machines
    have gone on before this one."""
    return tuple(sorted(n for n, at in observed.items() if LEVELS[at] < LEVELS[recorded]))


def blocked_by(
    observed: Mapping[int, ConversionStage], target: ConversionStage
) -> tuple[str, ...]:
    """Why brokers may not be restarted with this stage yet: some would not reach the others."""
    return tuple(
        f"broker {number} is at {at.name}: finish that first, on its machine"
        for number, at in sorted(observed.items())
        if not may_work_together([at, target])
    )


def closing_obstacles(
    visits: Sequence[PlainClientReport],
    brokers: Collection[int],
    late_processes: Sequence[str],
    quiet_s: float,
) -> tuple[str, ...]:
    """Why the plain listeners are still needed, as far as anybody knows."""
    found = [f"{name} has not started again and speaks in plain" for name in late_processes]
    asked = {one.broker_id for one in visits}
    found += [
        f"broker {number} could not be asked who comes in plain"
        for number in sorted(set(brokers) - asked)
    ]
    for one in visits:
        recent = [client for client in one.clients if client.age_s < quiet_s]
        found += [client.text for client in recent]
        if not recent and one.watched_s < quiet_s:
            found.append(
                f"broker {one.broker_id} has watched for {one.watched_s:.0f} s only, of"
                f" {quiet_s:.0f}"
            )
    return tuple(found)
