"""`/brokers/ids`: brokers that come, go, and say farewell.

In: a term. Out: its transactions, records. Never: whether a silent broker is dead; its node says.
"""

from __future__ import annotations

import logging

from broker.controller.decisions import brokers as broker_decisions
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_in_isr,
)
from broker.controller.zk import znodes
from broker.controller.zk.load import (
    in_chunks,
    read_broker,
)
from broker.controller.zk.term import Term
from broker.controller.zk.uptake.leadership import elect_where_nobody_leads
from broker.controller.zk.uptake.partitions import bear_partitions
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

log = logging.getLogger("broker.controller.zk")


async def take_brokers(term: Term) -> None:
    """`/brokers/ids`: who came, who left, who came back between two looks (C-BRK-01..12)."""
    session = term.office.session
    names = await session.children(znodes.BROKER_IDS, watch=True)
    faults: list[str] = []
    ids = sorted(int(name) for name in names if name.isdigit())
    found = await in_chunks(ids, lambda broker_id: read_broker(session, broker_id, faults))
    here = {record.broker_id: record for record in found if record is not None}
    for fault in faults:
        log.error("left alone: %s", fault)
    for broker_id, broker in sorted(term.image.brokers.items()):
        record = here.get(broker_id)
        if record is None or record.broker_epoch != broker.epoch:
            await _broker_left(term, broker_id)
    for broker_id, record in sorted(here.items()):
        if broker_id not in term.image.brokers:
            await _broker_came(term, record)
        else:
            _take_endpoints(term, record)


async def _broker_left(term: Term, broker_id: int) -> None:
    log.info("broker %d has gone", broker_id)
    term.deletions.broker_left(broker_id)

    def decide(image: MetadataImage) -> Decision[None]:
        broker = image.brokers.get(broker_id)
        if broker is None:
            return Decision((), None)
        pairs = partitions_in_isr(image, broker_id)
        changes = leader_and_isr_changes(image, term.office.rules(), pairs, remove=broker_id)
        gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        return Decision((*changes, gone), None)

    await term.transact(decide)


async def _broker_came(term: Term, record: RegisterBrokerRecord) -> None:
    log.info("broker %d is here, epoch %d", record.broker_id, record.broker_epoch)
    term.replay((record,))
    await bear_partitions(term)
    await elect_where_nobody_leads(term)
    term.tracking.tell_broker(term.image, record.broker_id)
    term.stop_replicas(term.deletions.broker_came(record.broker_id, term.image.brokers))
    term.lines.wake()


def _take_endpoints(term: Term, record: RegisterBrokerRecord) -> None:
    """Listeners may change while a broker runs; its epoch stays."""
    held = term.image.brokers[record.broker_id]
    ends = tuple((e.name, e.host, e.port) for e in record.end_points)
    if ends != tuple((e.name, e.host, e.port) for e in held.endpoints) or held.rack != record.rack:
        record.in_controlled_shutdown = held.in_controlled_shutdown
        term.replay((record,))


async def remove_the_dead(term: Term) -> None:
    """A new controller finds brokers in in-sync sets that left before it was elected."""
    counted = {one for _, partition in term.image.partitions() for one in partition.isr}
    for broker_id in sorted(counted - set(term.image.brokers)):

        def decide(image: MetadataImage, gone: int = broker_id) -> Decision[None]:
            pairs = [
                pair for pair in partitions_in_isr(image, gone)
                if pair[1].isr != (gone,) or pair[1].leader == gone
            ]  # fmt: skip
            rules = term.office.rules()
            return Decision(
                tuple(leader_and_isr_changes(image, rules, pairs, remove=gone)), None
            )

        await term.transact(decide)


async def leave_orderly(
    term: Term, broker_id: int, broker_epoch: int
) -> tuple[bool, list[tuple[str, int]]]:
    """ControlledShutdown: whether the broker is known under this epoch, and the partitions that
    it still leads because nobody else may (C-BRK-13)."""
    broker = term.image.brokers.get(broker_id)
    if broker is None or broker_epoch not in (-1, broker.epoch):
        return False, []
    await term.transact(
        lambda image: broker_decisions.enter_controlled_shutdown(
            image, term.office.rules(), broker_id, broker.epoch
        )
    )
    return True, [
        (topic.name, partition.index)
        for topic, partition in term.image.partitions()
        if partition.leader == broker_id and len(partition.replicas) > 1
    ]
