"""A gallery of faces in force: its base in a file, its changes beside it.

In: features as records have them. Out: of each the face that it resembles most, and the score.
Never: features of another model; the features of a base in memory. What was asked of the last
records is remembered, so that one product serves a batch; NumPy is loaded by the first question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bus.contracts.alarms import FaceProof
from bus.contracts.feature_models import FeatureModel, Measure
from bus.contracts.plate_lists import FaceLine, ListRecord
from bus.domain.feature_models import feature_of
from bus.domain.rule_values import FEATURE, FEATURE_MODEL, normal

if TYPE_CHECKING:
    from alarm.rules.face_scores import Rows

MAX_REMEMBERED = 1_024
"""Answers of a process for one gallery; a batch has fewer records."""


class FaceMatch(NamedTuple):
    """The face that a reading resembles most. `score`: by the measure of the model."""

    line: FaceLine
    score: float


class BaseFaces(Protocol):
    """The faces of a base, wherever they are (`alarm.lists.face_table`); picklable. All may raise
    `TableError`."""

    def nearest(
        self, readings: Rows, measure: Measure, excluded: Sequence[int]
    ) -> list[tuple[int, float] | None]:
        """Of each reading the place of the nearest face and its score."""

    def score(self, place: int, reading: Rows, measure: Measure) -> float:
        """Of one face."""

    def feature(self, place: int) -> bytes:
        """Of one face, as it is multiplied."""

    def place_of(self, entry: str) -> int | None:
        """Of an entry's line."""

    def lines(self, begin: int, count: int) -> list[FaceLine]:
        """So many from this one on, without their features."""

    def __len__(self) -> int: ...


class FaceGallery:
    """It pickles as its record, the path of its table, and its changes: an executor opens the
    table itself. Two are equal that have the same record. Invariant: `_answers` are those of the
    features that were asked for last."""

    def __init__(
        self,
        record: ListRecord,
        model: FeatureModel,
        table: BaseFaces,
        added: Mapping[str, FaceLine],
        removed: frozenset[str],
    ) -> None:
        """`added`: by entry, instead of what the base says of it; `removed`: entries of the
        base."""
        self.record = record
        self.model = model
        self.table = table
        self.added = added
        self.removed = removed
        self._model_name = normal(model.name)
        self._answers: dict[str, FaceMatch | None] = {}

    @property
    def list_id(self) -> str:
        """Of its record."""
        return self.record.list_id

    def __len__(self) -> int:
        """Places of lines: those of changes, then those of the base, in force or not."""
        return len(self.added) + len(self.table)

    @property
    def line_count(self) -> int:
        """Faces in force."""
        return len(self) - len(self._excluded)

    def lines(self, begin: int, count: int) -> list[FaceLine]:
        """Of so many places from this one on, those in force, without features. Raises
        `TableError`."""
        changed = len(self.added)
        own = sorted(self.added)[begin : begin + count] if begin < changed else ()
        base = self.table.lines(max(0, begin - changed), count - len(own))
        return [*(self.added[one] for one in own), *filter(self._is_in_force, base)]

    def line_of(self, entry: str) -> FaceLine | None:
        """Of one face in force, without its feature. Raises `TableError`."""
        if entry in self.added:
            return self.added[entry]
        place = None if entry in self.removed else self.table.place_of(entry)
        return None if place is None else self.table.lines(place, 1)[0]

    def feature_of_entry(self, entry: str) -> bytes | None:
        """Of one face in force; of a model that is compared by cosine perhaps of length 1. Raises
        `TableError`."""
        if entry in self.added:
            return self.added[entry].feature
        place = None if entry in self.removed else self.table.place_of(entry)
        return None if place is None else self.table.feature(place)

    def is_of_model(self, attributes: Mapping[str, str]) -> bool:
        """Whether a record names its model."""
        return self._model_name == attributes.get(FEATURE_MODEL, "")

    def compares(self, attributes: Mapping[str, str]) -> bool:
        """Whether a record has a feature of its model."""
        if not self.is_of_model(attributes):
            return False
        text = attributes.get(FEATURE, "")
        return text in self._answers or feature_of(text, self.model) is not None

    def prepare(self, records: Iterable[Mapping[str, str]]) -> None:
        """Answer for a batch with one product. Raises `TableError`."""
        features: dict[str, bytes] = {}
        for attributes in records:
            text = attributes.get(FEATURE, "")
            if text in self._answers or text in features:
                continue
            feature = self._feature(attributes)
            if feature is not None:
                features[text] = feature
        if len(self._answers) + len(features) > MAX_REMEMBERED:
            self._answers.clear()
        if features:
            self._answers.update(zip(features, self._nearest(list(features.values())), strict=True))

    def find(self, attributes: Mapping[str, str]) -> FaceMatch | None:
        """The nearest face; None of a record without a feature of its model. Raises
        `TableError`."""
        if not self.is_of_model(attributes):
            return None
        text = attributes.get(FEATURE, "")
        if text and text not in self._answers:
            self.prepare((attributes,))
        return self._answers.get(text)

    def assume(self, proof: FaceProof, attributes: Mapping[str, str]) -> None:
        """Take for the answer what a matcher says that had the gallery in this version: the face is
        scored by itself, and nothing is searched. Another version is not believed. Raises
        `TableError`."""
        feature = self._feature(attributes)
        if proof.version != self.record.version or feature is None or not proof.entry:
            return
        line = self.line_of(proof.entry)
        if line is not None:
            if len(self._answers) >= MAX_REMEMBERED:
                self._answers.clear()
            self._answers[attributes[FEATURE]] = FaceMatch(line, self._score(line, feature))

    def is_hit(self, match: FaceMatch | None, threshold: float | None) -> bool:
        """Whether that face is near enough."""
        return match is not None and self.model.is_hit(match.score, threshold)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FaceGallery) and self.record == other.record

    def __hash__(self) -> int:
        return hash((self.record.list_id, self.record.version))

    def __reduce__(
        self,
    ) -> tuple[
        type[FaceGallery],
        tuple[ListRecord, FeatureModel, BaseFaces, Mapping[str, FaceLine], frozenset[str]],
    ]:
        return FaceGallery, (self.record, self.model, self.table, self.added, self.removed)

    def _feature(self, attributes: Mapping[str, str]) -> bytes | None:
        if not self.is_of_model(attributes):
            return None
        return feature_of(attributes.get(FEATURE, ""), self.model)

    def _nearest(self, features: Sequence[bytes]) -> list[FaceMatch | None]:
        from alarm.rules.face_scores import nearest, rows_of

        measure = self.model.measure
        readings = rows_of(features, self.model.dimensions, measure)
        found: list[FaceMatch | None] = []
        for one in self.table.nearest(readings, measure, self._excluded):
            line = None if one is None else self.table.lines(one[0], 1)[0]
            found.append(None if one is None or line is None else FaceMatch(line, one[1]))
        if not self.added:
            return found
        rows, squares = self._added_rows
        lines = list(self.added.values())
        for at, one in enumerate(nearest(rows, squares, readings, measure)):
            if one is not None and self._is_nearer(one[1], found[at]):
                found[at] = FaceMatch(lines[one[0]], one[1])
        return found

    def _is_nearer(self, score: float, than: FaceMatch | None) -> bool:
        if than is None:
            return True
        return score < than.score if self.model.measure == "euclid" else score > than.score

    def _score(self, line: FaceLine, feature: bytes) -> float:
        from alarm.rules.face_scores import rows_of, scores

        model = self.model
        reading = rows_of([feature], model.dimensions, model.measure)[0]
        if line.entry in self.added:
            rows = rows_of([line.feature], model.dimensions, model.measure)
            return float(scores(rows, reading, model.measure)[0])
        place = self.table.place_of(line.entry)
        if place is None:
            raise ValueError(f"{line.entry} is in no base")
        return self.table.score(place, reading, model.measure)

    @cached_property
    def _added_rows(self) -> tuple[Rows, Rows]:
        from alarm.rules.face_scores import rows_of, squares_of

        features = [line.feature for line in self.added.values()]
        rows = rows_of(features, self.model.dimensions, self.model.measure)
        return rows, squares_of(rows)

    @cached_property
    def _excluded(self) -> tuple[int, ...]:
        """Places of the base that a change took away."""
        gone = (self.table.place_of(one) for one in {*self.removed, *self.added})
        return tuple(sorted(place for place in gone if place is not None))

    def _is_in_force(self, line: FaceLine) -> bool:
        return line.entry not in self.removed and line.entry not in self.added
