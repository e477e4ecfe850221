"""The metadata log and its controller on a real disk: what was decided is there again."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.controller.controller import SingleVoterController
from broker.controller.decisions.topics import Defaults, NewTopic, create_topics
from broker.controller.kraft import quorum_state
from broker.controller.kraft.metadata_log import MetadataLog, VoterIdentity
from broker.controller.kraft.quorum_state import QuorumState, QuorumStateError
from broker.controller.producer_ids import ProducerIds
from broker.disk.real import RealDisk
from broker.metadata.delta import Changes
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import RegisterBrokerRecord

VOTER = VoterIdentity(1, b"d" * 16, "127.0.0.1", 0)
DEFAULTS = Defaults(partitions=2, replication_factor=1)


def controller(root: Path, heard: list[Changes] | None = None) -> SingleVoterController:
    config = BrokerConfig.from_mapping({})
    store = MetadataLog(str(root), disk=RealDisk(), clock=RealClock(seed=1), config=config)
    made = SingleVoterController(store, "cluster", (heard if heard is not None else []).append)
    made.load()
    made.lead(VOTER)
    return made


def register(made: SingleVoterController) -> None:
    from broker.controller.decisions.decision import Decision

    record = RegisterBrokerRecord(broker_id=1, fenced=False)
    made.write(lambda image: Decision((record,), None), lambda _: None)


def create(made: SingleVoterController, *names: str) -> list[object]:
    ids = (number.to_bytes(16, "big") for number in count(made.end_offset))
    told: list[object] = []
    made.write(
        lambda image: create_topics(image, [NewTopic(n) for n in names], DEFAULTS, ids, 0),
        told.append,
    )
    return told


def world(image: MetadataImage) -> object:
    return image.topics, image.brokers, image.configs, image.features, image.next_producer_id


def test_replaying_the_log_from_its_start_gives_the_live_image(tmp_path: Path) -> None:
    """Through three lives, each under a higher epoch; also after a stop without farewell."""
    epochs = []
    image = MetadataImage()
    for life in range(3):
        made = controller(tmp_path)
        assert life == 0 or world(made.image) == world(image)
        epochs.append(made.epoch)
        register(made)
        create(made, f"t{life}-a", f"t{life}-b")
        image = made.image
        if life == 1:
            made.stop()
    assert epochs == [1, 2, 3]
    assert len(image.topics) == 6


def test_what_is_refused_leaves_no_record_and_tells_nobody(tmp_path: Path) -> None:
    """Only records change the image."""
    heard: list[Changes] = []
    made = controller(tmp_path, heard)
    register(made)
    before, end, told = made.image, made.end_offset, len(heard)
    create(made, "..")
    assert (made.image, made.end_offset, len(heard)) == (before, end, told)


def test_everybody_has_heard_before_the_answer_is_given(tmp_path: Path) -> None:
    """A client that reads its answer finds the topic at this broker."""
    heard: list[Changes] = []
    made = controller(tmp_path, heard)
    register(made)
    order: list[str] = []
    ids = iter([b"t" * 16])
    made.write(
        lambda image: create_topics(image, [NewTopic("t")], DEFAULTS, ids, 0),
        lambda _: order.append("t" if "t" in heard[-1].image.topics else "too early"),
    )
    assert order == ["t"]
    assert [p.index for _, p in heard[-1].changed_partitions] == [0, 1]


def test_producer_ids_are_never_handed_out_twice(tmp_path: Path) -> None:
    """Across blocks and restarts."""
    taken: list[int] = []
    for _ in range(2):
        made = controller(tmp_path)
        register(made)
        ids = ProducerIds(made, 1, site=2)
        for _ in range(1500):
            ids.take(taken.append)
        made.stop()
    assert len(set(taken)) == 3000
    assert {producer_id >> 48 for producer_id in taken} == {2}


def test_the_quorum_state_is_in_kafkas_format(tmp_path: Path) -> None:
    """Version 1: epoch, leader, vote; no list of voters, they are in the log."""
    controller(tmp_path).stop()
    text = (tmp_path / "__cluster_metadata-0" / "quorum-state").read_text()
    assert json.loads(text) == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": 1,
        "votedDirectoryId": quorum_state.uuid_text(VOTER.directory_id),
        "data_version": 1,
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"data_version":0}', '{"data_version":1}'])
def test_a_quorum_state_that_cannot_be_read_is_never_overwritten(text: str) -> None:
    """Two leaders in one epoch would be worse than no start."""
    with pytest.raises(QuorumStateError):
        quorum_state.decode(text)


def test_the_quorum_state_survives_its_text() -> None:
    """UUIDs as Kafka writes them."""
    state = QuorumState(3, 17, 3, bytes(range(16)))
    assert quorum_state.decode(quorum_state.encode(state)) == state
