"""Of which model the faces are that somebody imports, and which threshold their gallery has. Pure.

In: the models of the site, what was said, the gallery in force. Out: a model. Never: a guess among
several models.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import ListRecord
from bus.domain.command_error import CommandError
from bus.domain.feature_models import Models, known_model


class WantedModel(NamedTuple):
    """What was said of it. `name`: empty: that which the file names, or the gallery in force has;
    `threshold`: None: that of the gallery in force, else the model's own."""

    models: Models
    name: str = ""
    threshold: float | None = None

    def known(self, name: str) -> FeatureModel:
        """The model of that name, as the site has it. Raises `CommandError`."""
        return known_model(self.models, name)

    def of_gallery(self, record: ListRecord | None) -> FeatureModel:
        """That of the gallery in force. Raises `CommandError`."""
        if record is None or record.model is None:
            known = ", ".join(sorted(one.name for one in self.models.values()))
            raise CommandError(
                "model", f"say of which model the features are: {known}", "no_model"
            )
        return self.known(record.model.name)

    def with_threshold(self, model: FeatureModel, record: ListRecord | None) -> FeatureModel:
        """With the threshold that was said, else that of the gallery in force."""
        before = None if record is None else record.model
        threshold = self.threshold
        if threshold is None and before is not None and before.name == model.name:
            threshold = before.threshold
        return model if threshold is None else msgspec.structs.replace(model, threshold=threshold)
