"""One comparison: requests in order, and which of their answers are compared.

In: nothing. Out: values only. Never: a connection. One deviation is one `row(...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bus.protocol.apis import APIS

KEYS = {info.name: info.key for info in APIS.values()}

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """One request. Fields that are left out have the protocol's default.

    `version` None: the row's. `on`: the name of the connection it goes over. `keep`: placeholder ->
    path into the answer (`topics.0.topic_id`). `until`: repeated until these paths have these
    values, for changes that take time. `later`: the answer is read by a later `answer(on)`.
    """

    api: str
    version: int | None
    fields: Fields = field(default_factory=dict)
    on: str = "main"
    keep: Mapping[str, str] = field(default_factory=dict)
    until: Mapping[str, Any] = field(default_factory=dict)
    later: bool = False

    @property
    def key(self) -> int:
        """The API's number."""
        return KEYS[self.api]


@dataclass(frozen=True)
class ReceiveLate:
    """The answer to the oldest request on this connection that was sent with `later`."""

    on: str
    keep: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """A client leaves: its connection is closed."""

    on: str


Step = Ask | ReceiveLate | Hang


@dataclass(frozen=True)
class Deviation:
    """One deviation. `given` must succeed and is not compared; every answer to `steps` is;
    `afterwards` always runs and is never compared: it restores the broker's state.

    `only`: leaf fields that are compared (empty: all). `may_differ`: names of `normalise.BY_NAME`.
    """

    id: str
    name: str
    steps: tuple[Step, ...]
    given: tuple[Step, ...] = ()
    afterwards: tuple[Step, ...] = ()
    only: tuple[str, ...] = ()
    may_differ: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in recordings and reports."""
        return f"{self.id}: {self.name}"


def ask(api: str, version: int | None, /, **fields: Any) -> Ask:
    """A request with these fields."""
    return Ask(api, version, fields)


def row(
    id: str,
    name: str,
    *steps: Step,
    given: Sequence[Step] = (),
    afterwards: Sequence[Step] = (),
    versions: Sequence[int] = (),
    only: Sequence[str] = (),
    may_differ: Sequence[str] = (),
) -> list[Deviation]:
    """One row per version; requests without a version of their own have the row's."""
    made = Deviation(id, name, steps, tuple(given), tuple(afterwards), tuple(only), tuple(may_differ))
    if not versions:
        return [made]
    return [
        replace(made, name=f"{name}, v{version}", steps=_in_version(steps, version))
        for version in versions
    ]


def _in_version(steps: Sequence[Step], version: int) -> tuple[Step, ...]:
    return tuple(
        replace(step, version=version) if isinstance(step, Ask) and step.version is None else step
        for step in steps
    )
