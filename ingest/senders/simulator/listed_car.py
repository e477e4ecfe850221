"""A list of plates of the city, and a car that only this list finds: by its plate, and by what
cameras take it for. Its neighbour differs in the last digit, and no line means it.

Expected alarms are computed here, not with `alarm.rules`, as in `watched_cars`; so are the groups
of characters that the list takes for one written down once more.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bus.client.kafka.command_client import new_command_id
from bus.client.model import KeyedValue
from bus.contracts.plate_lists import ListCommand, ListLine, base_key
from bus.domain.list_chunks import base_chunks
from ingest.senders.simulator import names
from ingest.senders.simulator.record_builder import Message, further_candidates

LINES = 3_000
_GROUPS = ("0DOQU", "1I", "5S", "6G", "8B", "MNW")
_FOLDED = str.maketrans({sign: group[0] for group in _GROUPS for sign in group})
_DATE = "2026-03-01"
_LEAST_WEIGHT = 0.1
"""Of a further candidate that such a list takes."""


@dataclass(frozen=True, slots=True)
class ListedCarsRule:
    """A list that takes look-alikes, which is a rule itself."""

    list_id: str
    name: str
    plate: str
    """Of the car that drives, for the run's account."""
    plates: tuple[str, ...]
    _forms: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_forms", frozenset(map(_folded, self.plates)))

    @property
    def rule_id(self) -> str:
        """Of the rule that it is."""
        return f"list/{self.list_id}"

    def chunks(self) -> Iterator[KeyedValue]:
        """What stands on the topic of lists before the command."""
        for chunk in base_chunks(self._lines()):
            key = base_key(self.list_id, self._base, chunk.named.number)
            yield KeyedValue(key.encode(), chunk.value)

    def command(self, version: int) -> ListCommand:
        """What whoever imports it would ask for."""
        return ListCommand(
            op="put", list_id=self.list_id, version=version, name=self.name, severity="critical",
            owner=names.RULE_AUTHOR, source="ingest simulate", date=_DATE, tolerance="look-alikes",
            base=self._base, chunks=tuple(one.named for one in base_chunks(self._lines())),
            author=names.RULE_AUTHOR, issuer=names.RULE_AUTHOR, command_id=new_command_id(),
        )  # fmt: skip

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm; of a part of a plate nobody is sure, unless the
        camera holds one of the list possible."""
        plate = message.get("车牌号码")
        if isinstance(plate, str) and plate.isalnum() and _folded(plate) in self._forms:
            return True
        return any(
            weight >= _LEAST_WEIGHT and one in self.plates
            for one, weight in further_candidates(message)
        )

    @property
    def _base(self) -> str:
        return hashlib.sha256("".join(self.plates).encode()).hexdigest()[:32]

    def _lines(self) -> Iterator[ListLine]:
        return (
            ListLine(number, plate, f"case {number}", _DATE)
            for number, plate in enumerate(self.plates, start=2)
        )


def rule_of(seed: int, plate: str, others: Iterable[str]) -> ListedCarsRule:
    """The list of a city. `others`: plates of cars that it must not mean."""
    rng = random.Random(f"listed:{seed}")
    taken = set(map(_folded, others))
    plates = {plate: None}
    while len(plates) < LINES:
        region = rng.choice(names.PLATE_REGIONS)[0]
        made = f"{region}{names.WATCHED_LETTER}{rng.randrange(10_000):04}"
        if _folded(made) not in taken:
            plates[made] = None
    ordered = list(plates)
    rng.shuffle(ordered)
    return ListedCarsRule(f"city-{seed}-listed", "盗抢车辆名单 stolen cars", plate, tuple(ordered))


def _folded(plate: str) -> str:
    return plate.translate(_FOLDED)
