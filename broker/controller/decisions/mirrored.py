"""What a mirrored topic may not be: deleted, one of the cluster's own, or mirrored from the site
that the site epoch calls the secondary. Pure.

A topic is mirrored while its key `mirror.source.cluster.id` is set.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.controller.decisions.decision import RefusedError
from broker.metadata.image import MetadataImage, ResourceType
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_epoch import SiteEpoch
from bus.errors import ErrorCode

OWN_PREFIX = "__"
"""Topics that the cluster itself writes begin with it."""


def check_may_be_mirrored(
    name: str, values: Mapping[str, str | None], epoch: SiteEpoch | None
) -> None:
    """Raise RefusedError if these values would make one of the cluster's own topics read-only, or
    let the mirror of a former primary write here."""
    source = values.get(SOURCE_CLUSTER_KEY)
    if name.startswith(OWN_PREFIX) and source:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"{SOURCE_CLUSTER_KEY}: the brokers themselves write to {name}.",
        )
    if epoch is not None and source == epoch.secondary:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"{SOURCE_CLUSTER_KEY}: cluster {source} is the secondary since site epoch "
            f"{epoch.number}.",
        )


def mirror_source(image: MetadataImage, name: str) -> str:
    """The cluster a topic is mirrored from; empty for none."""
    return image.configs.get((ResourceType.TOPIC, name), {}).get(SOURCE_CLUSTER_KEY, "")
