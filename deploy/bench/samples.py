"""The runs of some figures while they are being measured, and the figures that fail meanwhile.

In: one run after the other. Out: samples so far, so that they can be kept before the next run.
Never: an end because one figure could not be measured; that is said, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from deploy.bench.report import FIGURES, Samples
from deploy.errors import OperatorError

Say = Callable[[str], None]
Result = TypeVar("Result")

MAX_ERROR_CHARS = 400
"""Characters of a failure; its log is longer, and names itself there."""


def chosen_figures(prefix: str, only: str) -> list[str]:
    """`plain,zstd` as names of figures that begin with `prefix`, `month` as all of a month; all
    where it is empty. Raises `OperatorError`."""
    known = [name for name in FIGURES if name.startswith(prefix)]
    wanted: list[str] = []
    for part in filter(None, map(str.strip, only.split(","))):
        found = [one for one in known if f"{one}-".startswith(f"{prefix}{part}-")]
        if not found:
            raise OperatorError(f"there is no figure {prefix}{part}; known: {', '.join(known)}")
        wanted += found
    return wanted or known


class PartialSamples(OperatorError):
    """Some figures of a program failed; `found` has the others."""

    def __init__(self, failures: Sequence[str], found: Mapping[str, float]) -> None:
        super().__init__("; ".join(failures))
        self.found = dict(found)


def each_attempted(
    programs: Mapping[str, Callable[[], float]], failure: str = ""
) -> dict[str, float]:
    """Every figure by its name. Raises `PartialSamples` at the end if any of them failed, or there
    was a `failure` before."""
    failures = [failure] if failure else []
    found: dict[str, float] = {}
    for name, work in programs.items():
        try:
            found[name] = work()
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
    if failures:
        raise PartialSamples(failures, found)
    return found


def attempt(what: str, work: Callable[[], Result], say: Say) -> Result | None:
    """What `work` gives; None if it fails in any way."""
    try:
        return work()
    except Exception as error:  # hours of other figures must not be lost with this one
        say(f"  not measured: {what}: {type(error).__name__}: {str(error)[-MAX_ERROR_CHARS:]}")
        return None


class SampleRecorder:
    """Invariant: every figure has the runs that succeeded, ours and Kafka's, in their order."""

    def __init__(self, names: Sequence[str], repeat: int, say: Say) -> None:
        self._repeat = repeat
        self._say = say
        self._runs: dict[str, tuple[list[float], list[float]]] = {n: ([], []) for n in names}

    def add(self, name: str, value: float, *, of: str, is_kafka: bool = False) -> None:
        """Adds one run; `of` is shown with it."""
        runs = self._runs[name][is_kafka]
        runs.append(value)
        self._say(f"  {name} {len(runs)}/{self._repeat} {of}: {value:.4g}")

    def samples(self) -> Iterator[Samples]:
        """All figures that have a run of ours."""
        for name, (ours, kafka) in self._runs.items():
            if ours:
                yield Samples(figure=name, ours=list(ours), kafka=list(kafka))
