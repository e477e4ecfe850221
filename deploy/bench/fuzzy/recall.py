"""How many misread targets fuzzy rules find beside plain edit distance, at the same false alarms.

In: a seed. Out: two recalls. The fleet has the plates of one province and letter, so that it is as
dense as it can be; cars pass at random; each reading is drawn from the half of the counts that no
price rests on. Never: a reading of a price or distance that no rule at its usual price can have.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from alarm.rules import RuleSet, compile_rules
from bus.contracts.commands import WatchCommand
from bus.domain.confusion_table import PACKAGED
from bus.domain.fuzzy_plate import MARK, USUAL_HIGHEST
from bus.domain.misreading_prices import UNKNOWN, UNSAID, MisreadingPrices
from bus.domain.reading_price import confidence_bands, reading_price
from bus.domain.rule_values import CONFIDENCES, PLATE, normal_as
from deploy.bench.plates.drawing import drawn_serial
from ingest.senders.simulator.plate_misreader import PlateMisreader

FLEET, READINGS, TARGETS, SEEDS = 2_000_000, 1_000_000, 1_000, 5
FALSE_ALARMS_PER_MILLION = 10
_REGION = "浙A"
_PLAIN = MisreadingPrices(
    ({},) * (UNSAID + 1), ({},) * (UNSAID + 1), (UNKNOWN,) * (UNSAID + 1), {}, {}, {}, 1.0
)
"""Every edit costs the same."""


class ScoredReading(NamedTuple):
    """A reading that a rule may take for its plate."""

    score: float
    is_target: bool


class Recalls(NamedTuple):
    """Shares of the readings of targets that are found."""

    fuzzy: float
    plain: float


def compare(
    seed: int, *, fleet: int = FLEET, readings: int = READINGS, targets: int = TARGETS
) -> Recalls:
    """Both recalls of one city."""
    rng = random.Random(f"fuzzy:{seed}")
    serials: set[str] = set()
    while len(serials) < fleet:
        serials.add(drawn_serial(rng))
    plates = [_REGION + serial for serial in sorted(serials)]
    wanted = rng.sample(plates, targets)
    rules = compile_rules(
        WatchCommand(rule_id=plate, op="put", version=1, match={PLATE: [f"{MARK}{plate}"]})
        for plate in wanted
    )
    return _compare(rng, plates, rules, readings)


def _compare(rng: random.Random, plates: list[str], rules: RuleSet, readings: int) -> Recalls:
    misreader = PlateMisreader(rng)
    fuzzy: list[ScoredReading] = []
    plain: list[ScoredReading] = []
    of_targets = 0
    for _ in range(readings):
        true = plates[int(rng.random() * len(plates))]
        of_targets += true in rules.rules
        read, sure = misreader.read(true)
        form = normal_as(PLATE, read)
        attributes = {PLATE: form, CONFIDENCES: ",".join(map(str, sure))}
        bands = confidence_bands(attributes[CONFIDENCES], form)
        for target in rules.matcher.candidates("vehicle", attributes):
            for prices, found in ((PACKAGED.prices, fuzzy), (_PLAIN, plain)):
                score = reading_price(target, form, prices, USUAL_HIGHEST, bands)
                if score is not None:
                    found.append(ScoredReading(score, target == true))
    most = FALSE_ALARMS_PER_MILLION * readings / 1_000_000
    return Recalls(*(recall_at(most, found, of_targets) for found in (fuzzy, plain)))


def recall_at(most_false: float, scored: Iterable[ScoredReading], of_targets: int) -> float:
    """The share of targets found where at most so many others are: the score at which it stops is
    taken in part, as if readings of the same score came in any order."""
    found = false = 0.0
    by_score: dict[float, list[int]] = {}
    for score, is_target in scored:
        by_score.setdefault(score, [0, 0])[is_target] += 1
    for score in sorted(by_score):
        others, targets = by_score[score]
        part = 1.0 if false + others <= most_false else (most_false - false) / others
        found += part * targets
        false += part * others
        if part < 1:
            break
    return found / max(1, of_targets)
