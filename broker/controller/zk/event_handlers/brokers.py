"""`/brokers/ids`: brokers that start, fail and shut down. A broker is alive exactly while its node
exists."""

from __future__ import annotations

import logging

from broker.controller.decisions import brokers as broker_decisions
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_in_isr,
)
from broker.controller.decisions.site_confirmations import leave
from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.event_handlers.leadership import elect_missing_leaders
from broker.controller.zk.event_handlers.partitions import initialize_partitions
from broker.controller.zk.state_reader import (
    in_chunks,
    read_broker,
)
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

log = logging.getLogger("broker.controller.zk")


async def on_broker_change(context: ControllerContext) -> None:
    """`/brokers/ids`: which brokers started, failed, or restarted between two reads
    (C-BRK-01..12)."""
    session = context.deps.session
    names = await session.children(znodes.BROKER_IDS, watch=True)
    faults: list[str] = []
    ids = sorted(int(name) for name in names if name.isdigit())
    found = await in_chunks(ids, lambda broker_id: read_broker(session, broker_id, faults))
    here = {record.broker_id: record for record in found if record is not None}
    for fault in faults:
        log.error("left alone: %s", fault)
    for broker_id, broker in sorted(context.image.brokers.items()):
        record = here.get(broker_id)
        if record is None or record.broker_epoch != broker.epoch:
            await _on_broker_failure(context, broker_id)
    for broker_id, record in sorted(here.items()):
        if broker_id not in context.image.brokers:
            await _on_broker_startup(context, record)
        else:
            _update_endpoints(context, record)
    started = {broker_id: record.incarnation_id for broker_id, record in here.items()}
    await context.transact(lambda image: Decision(tuple(leave(image, started)), None))


async def _on_broker_failure(context: ControllerContext, broker_id: int) -> None:
    log.info("broker %d has gone", broker_id)
    context.deletions.on_broker_failure(broker_id)

    def decide(image: MetadataImage) -> Decision[None]:
        broker = image.brokers.get(broker_id)
        if broker is None:
            return Decision((), None)
        pairs = partitions_in_isr(image, broker_id)
        changes = leader_and_isr_changes(image, context.deps.policy(), pairs, remove=broker_id)
        gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        return Decision((*changes, gone), None)

    await context.transact(decide)


async def _on_broker_startup(context: ControllerContext, record: RegisterBrokerRecord) -> None:
    log.info("broker %d is here, epoch %d", record.broker_id, record.broker_epoch)
    context.replay((record,))
    await initialize_partitions(context)
    await elect_missing_leaders(context)
    context.tracking.queue_full_update_for(context.image, record.broker_id)
    context.stop_replicas(
        context.deletions.on_broker_startup(record.broker_id, context.image.brokers)
    )
    context.request_queues.send_pending()


def _update_endpoints(context: ControllerContext, record: RegisterBrokerRecord) -> None:
    """Listeners may change while a broker runs; its epoch stays."""
    held = context.image.brokers[record.broker_id]
    ends = tuple((e.name, e.host, e.port) for e in record.end_points)
    if ends != tuple((e.name, e.host, e.port) for e in held.endpoints) or held.rack != record.rack:
        record.in_controlled_shutdown = held.in_controlled_shutdown
        context.replay((record,))


async def remove_offline_brokers(context: ControllerContext) -> None:
    """Removes brokers from in-sync sets that failed before this controller was elected."""
    counted = {one for _, partition in context.image.partitions() for one in partition.isr}
    for broker_id in sorted(counted - set(context.image.brokers)):

        def decide(image: MetadataImage, gone: int = broker_id) -> Decision[None]:
            pairs = [
                pair for pair in partitions_in_isr(image, gone)
                if pair[1].isr != (gone,) or pair[1].leader == gone
            ]  # fmt: skip
            rules = context.deps.policy()
            return Decision(
                tuple(leader_and_isr_changes(image, rules, pairs, remove=gone)), None
            )

        await context.transact(decide)


async def controlled_shutdown(
    context: ControllerContext, broker_id: int, broker_epoch: int
) -> tuple[bool, list[tuple[str, int]]]:
    """ControlledShutdown: whether the broker is known under this epoch, and the partitions that it
    still leads because no other replica may (C-BRK-13)."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker_epoch not in (-1, broker.epoch):
        return False, []
    await context.transact(
        lambda image: broker_decisions.enter_controlled_shutdown(
            image, context.deps.policy(), broker_id, broker.epoch
        )
    )
    return True, [
        (topic.name, partition.index)
        for topic, partition in context.image.partitions()
        if partition.leader == broker_id and len(partition.replicas) > 1
    ]
