"""`/config/changes` and the authorizer's notifications, as far as the controller needs them.

Applies what notifications name, after this broker has read them, and records the versions that
later writes are conditional on. Sets no watch; `broker_znode` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import ChangeNotification
from broker.controller.zk.configs import read_notified_changes
from broker.controller.zk.controller_context import ControllerContext
from broker.metadata.image import MetadataImage, ResourceType
from bus.protocol.generated.metadata_records import (
    ConfigRecord,
)


async def apply_change_notifications(
    context: ControllerContext, notifications: Sequence[ChangeNotification]
) -> None:
    """`/config/changes` and the authorizer's notifications: configurations, quotas and ACLs that
    were changed by hand; the versions that later writes are conditional on."""
    for folder, data in notifications:
        try:
            changes = await read_notified_changes(context.deps.session, folder, data, context.image)
        except znodes.ZnodeError:
            continue  # the member has said so
        for path, node in changes.configs.items():
            if node is None:
                context.config_nodes.pop(path, None)
            else:
                context.config_nodes[path] = node
        for path, version in changes.acls.items():
            context.note_acl(path, version)
        context.replay(one for one in changes.records if not _is_of_no_topic(context.image, one))


def _is_of_no_topic(image: MetadataImage, record: object) -> bool:
    """A configuration whose topic does not exist (yet, or any longer) comes with the topic."""
    return (
        isinstance(record, ConfigRecord)
        and record.resource_type == ResourceType.TOPIC
        and record.resource_name not in image.topics
    )
