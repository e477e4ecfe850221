"""`/config/changes` and the notes of the authorizer, as far as the controller must know them.

In: notes that this broker has read. Out: records that stand in ZooKeeper already, and the versions
that later writes are conditional on. Never: a watch; the member has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.zk import znodes
from broker.controller.zk.configs import read_noted
from broker.controller.zk.member import NoteFound
from broker.controller.zk.term import Term
from broker.metadata.image import MetadataImage, ResourceType
from bus.protocol.generated.metadata_records import (
    ConfigRecord,
)


async def take_notes(term: Term, notes: Sequence[NoteFound]) -> None:
    """`/config/changes` and the notes of the authorizer: configurations, quotas and rules that
    somebody wrote by hand; the versions that later writes are conditional on."""
    for folder, data in notes:
        try:
            noted = await read_noted(term.office.session, folder, data, term.image)
        except znodes.ZnodeError:
            continue  # the member has said so
        for path, node in noted.configs.items():
            if node is None:
                term.config_nodes.pop(path, None)
            else:
                term.config_nodes[path] = node
        for path, version in noted.acls.items():
            term.note_acl(path, version)
        term.replay(one for one in noted.records if not _is_of_no_topic(term.image, one))


def _is_of_no_topic(image: MetadataImage, record: object) -> bool:
    """A configuration whose topic is not there (yet, or any more) comes with the topic."""
    return (
        isinstance(record, ConfigRecord)
        and record.resource_type == ResourceType.TOPIC
        and record.resource_name not in image.topics
    )
