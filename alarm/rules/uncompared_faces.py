"""How many faces have a feature that no gallery could be compared with. Pure.

In: the galleries that rules ask for, the attributes of records. Out: a number by reason. Never: a
record without a feature: a device that makes none has nothing to be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from alarm.rules.face_gallery import FaceGallery
from bus.domain.rule_values import FEATURE

OTHER_MODEL, NO_FEATURE = "other model", "no feature"
"""Of a model that no gallery has; of such a one, and not its numbers."""


def uncompared_faces(
    galleries: Sequence[FaceGallery], records: Iterable[Mapping[str, str]]
) -> Counter[str]:
    """By reason; nothing where there is no gallery."""
    found: Counter[str] = Counter()
    for attributes in records if galleries else ():
        if not attributes.get(FEATURE):
            continue
        own = [one for one in galleries if one.is_of_model(attributes)]
        if not own:
            found[OTHER_MODEL] += 1
        elif not any(one.compares(attributes) for one in own):
            found[NO_FEATURE] += 1
    return found
