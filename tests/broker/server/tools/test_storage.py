"""Formatting log directories: what is written, what is refused and leaves everything as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.controller.kraft.storage.format import FIRST_RECORDS, read_first_records
from broker.controller.kraft.storage.snapshots import MetadataSnapshotDamaged
from broker.disk.real import RealDisk
from broker.log.log_dir_files import WrongDirectory, new_id, read_meta_properties
from broker.server.tools.storage import FormatError, Formatted, format_storage

CLUSTER = "kVNhMTxxQ0-lMbxvmrHRsg"
DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"
OTHER = "MvDxzVmcRsaTz33bUuRU6A"


def configuration(root: Path, **properties: str) -> BrokerConfig:
    return BrokerConfig.from_mapping(
        {
            "log.dirs": f"{root}/a,{root}/b",
            "node.id": "3",
            "listeners": "PLAINTEXT://:19092,CONTROLLER://:19093",
            "controller.quorum.bootstrap.servers": "127.0.0.1:19093",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )


def formatted(config: BrokerConfig, cluster_id: str = CLUSTER, **how: object) -> Formatted:
    return format_storage(config, RealDisk(), RealClock(1), cluster_id, **how)  # type: ignore[arg-type]


def snapshot(root: Path) -> Path:
    return root / "a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def test_every_directory_is_formatted_with_an_id_of_its_own(tmp_path: Path) -> None:
    """And both name the cluster and the node."""
    formatted(configuration(tmp_path))
    found = [read_meta_properties(RealDisk(), f"{tmp_path}/{name}") for name in "ab"]
    assert [(one.cluster_id, one.node_id) for one in found if one] == [(CLUSTER, 3)] * 2
    assert len({one.directory_id for one in found if one}) == 2
    assert not snapshot(tmp_path).exists()


def test_a_standalone_controller_is_its_own_first_voter(tmp_path: Path) -> None:
    """The snapshot 0-0 is there from the first start on."""
    formatted(configuration(tmp_path), standalone=True)
    assert snapshot(tmp_path).exists()


def test_among_initial_controllers_the_node_takes_the_directory_id_that_was_given(
    tmp_path: Path,
) -> None:
    """The others vote for replica and directory."""
    text = f"3@127.0.0.1:19093:{DIRECTORY},4@127.0.0.1:19094:{OTHER}"
    done = formatted(configuration(tmp_path), initial_controllers=text)
    assert done.directory_id == DIRECTORY
    assert snapshot(tmp_path).exists()


@pytest.mark.parametrize(
    ("how", "properties", "word"),
    [
        ({"standalone": True}, {"process_roles": "broker"}, "process.roles"),
        (
            {"standalone": True, "initial_controllers": f"3@h:1:{DIRECTORY}"},
            {},
            "either",
        ),
        ({"standalone": True}, {"controller_quorum_voters": "3@h:1"}, "quorum.voters"),
        ({"initial_controllers": f"4@h:1:{DIRECTORY}"}, {}, "--no-initial-controllers"),
        ({"initial_controllers": "3@h:1"}, {}, "directory-id"),
        ({"initial_controllers": f"3@h:1:{DIRECTORY},3@h:2:{OTHER}"}, {}, "twice"),
    ],
)
def test_what_contradicts_itself_is_refused_and_nothing_is_written(
    tmp_path: Path, how: dict[str, object], properties: dict[str, str], word: str
) -> None:
    """The sentence names what to change."""
    with pytest.raises(FormatError, match=word):
        formatted(configuration(tmp_path, **properties), **how)
    assert list(tmp_path.rglob("*")) == []


def test_a_formatted_directory_is_left_alone_unless_asked_to_look_over_it(tmp_path: Path) -> None:
    """With --ignore-formatted a new disk is added to an old node."""
    formatted(configuration(tmp_path))
    before = (tmp_path / "a/meta.properties").read_text()
    with pytest.raises(FormatError, match="--ignore-formatted"):
        formatted(configuration(tmp_path))
    more = configuration(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c")
    done = formatted(more, ignore_formatted=True)
    assert done.written == (f"{tmp_path}/c",)
    assert (tmp_path / "a/meta.properties").read_text() == before


def test_a_directory_of_another_cluster_or_node_is_never_formatted(tmp_path: Path) -> None:
    """Nothing is overwritten, and the other directories stay unformatted too."""
    formatted(configuration(tmp_path))
    (tmp_path / "b/meta.properties").unlink()
    for config, cluster_id in (
        (configuration(tmp_path), new_id(RealClock(2))),
        (configuration(tmp_path, node_id="4"), CLUSTER),
    ):
        with pytest.raises(WrongDirectory, match="nothing was changed"):
            formatted(config, cluster_id, ignore_formatted=True)
        assert not (tmp_path / "b/meta.properties").exists()


def test_first_users_wait_beside_the_metadata_and_a_cut_file_is_named(tmp_path: Path) -> None:
    """The node must not start without the users that it was formatted with."""
    text = "SCRAM-SHA-512=[name=alice,password=secret]"
    formatted(configuration(tmp_path), scram_users=[text])
    [user] = read_first_records(RealDisk(), f"{tmp_path}/a")
    assert user.name == "alice"  # type: ignore[attr-defined]
    assert read_first_records(RealDisk(), f"{tmp_path}/b") == ()
    path = tmp_path / "a" / FIRST_RECORDS
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MetadataSnapshotDamaged, match="format the directories again"):
        read_first_records(RealDisk(), f"{tmp_path}/a")


def test_a_text_that_names_no_user_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="--add-scram: "):
        formatted(configuration(tmp_path), scram_users=["alice"])
    assert not (tmp_path / "a").exists()
    broker = {"process_roles": "broker", "listeners": "PLAINTEXT://:19092"}
    with pytest.raises(FormatError, match="controllers"):
        formatted(configuration(tmp_path, **broker), scram_users=["alice"])
