"""A topic that is another one at the source by now: what the target holds of the old one goes into
files, and the new one is copied from its beginning.

In: the target, what the mirror says of the topic. Out: files, steps as they are done. Never: a
topic that is copied well, or that the source does not have; a record that the target holds and no
file has, unless the operator says so.

1. what the target holds, into files · 2. the topic is no copy any more · 3. it is deleted there ·
4. the mirror makes it again, and copies. Killed? The same command goes on: the folder of the files
is named by the topic's id, and says in `begun` what is in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bus.client.model import TopicPartition
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.mirror_status import MirrorStatus
from bus.errors import BusError, ErrorCode
from bus.files.durable_file import replace_durably
from dr_mirror.switch.diverged_record_file import DivergedRecordFile
from dr_mirror.switch.plan.switch import Obstacle
from dr_mirror.switch.site_client import SiteClient, retried
from dr_mirror.switch.steps import OnStep, SwitchRefused, SwitchUnfinished
from dr_mirror.topics.states import MirrorState, state_named
from dr_mirror.topics.topics import MirrorTopic

ANOTHER = frozenset({
    MirrorState.RECREATED_AT_SOURCE, MirrorState.SOURCE_TRUNCATED, MirrorState.TARGET_TRUNCATED,
    MirrorState.DIVERGED,
})  # fmt: skip
"""States in which both sites hold another log under one name."""
BEGUN = "begun"
"""In the folder of the files: all that the target held is in them, and the topic goes."""
ID_CHARACTERS = 32
POLL_S = 0.2


class CopiedAgain(msgspec.Struct, frozen=True, kw_only=True):
    """`records` of the old topic are in `files`; none where the operator wanted none."""

    topic: str
    records: int
    files: tuple[str, ...]


class CopyAgain:
    """`run` once for a topic. `read_status` is the mirror's newest word, `folder` the folder below
    which files are written; `name` is the topic's at the target."""

    def __init__(
        self, target: SiteClient, read_status: Callable[[], MirrorStatus], *, topic: str,
        name: str, folder: Path, on_step: OnStep, timeout_s: float,
    ) -> None:  # fmt: skip
        self._target = target
        self._read_status = read_status
        self._topic, self._name = topic, name
        self._folder = folder
        self._on_step = on_step
        self._timeout_s = timeout_s

    def run(self, *, with_files: bool) -> CopiedAgain:
        """Raises SwitchRefused, SwitchUnfinished, BusError, StatusUnavailable, OSError."""
        status = self._read_status()
        held = self._target.topics().get(self._name)
        states = states_of_topic(status, self._topic)
        is_copied = bool(states) and all(one.copies for one in states)
        before = self._begun_before(held)
        if before is not None and (held is None or is_copied):  # only its last words are missing
            self._wait_until_copied()
            return before
        if held is None:
            raise SwitchRefused([Obstacle(f"{self._target.name} has no such topic", self._topic)])
        folder = self._folder / f"{self._name}-{held.topic_id.hex()}"
        if (folder / BEGUN).exists():
            done = _read(folder / BEGUN)
        else:
            self._check(status, held)
            done = CopiedAgain(topic=self._topic, records=0, files=())
            if with_files:
                done = self._put_into_files(held, folder)
            folder.mkdir(parents=True, exist_ok=True)
            replace_durably(folder / BEGUN, msgspec.json.encode(done))
        self._delete(held)
        self._wait_until_copied()
        return done

    def _begun_before(self, held: MirrorTopic | None) -> CopiedAgain | None:
        """What the newest command about a topic of this name has begun that is gone by now."""
        present = held.topic_id.hex() if held is not None else ""
        found = [
            folder / BEGUN
            for folder in self._folder.glob(f"{self._name}-*")
            if folder.name[: -ID_CHARACTERS - 1] == self._name
            and not folder.name.endswith(f"-{present}")
            and (folder / BEGUN).exists()
        ]
        return _read(max(found, key=lambda path: path.stat().st_mtime)) if found else None

    def _check(self, status: MirrorStatus, held: MirrorTopic) -> None:
        """Raises SwitchRefused."""
        if held.configs.get(SOURCE_CLUSTER_KEY) != status.source_cluster_id:
            raise SwitchRefused([Obstacle(
                f"it is no copy of cluster {status.source_cluster_id}: what it holds is "
                f"{self._target.name}'s own", self._topic,
            )])  # fmt: skip
        states = states_of_topic(status, self._topic)
        if not states & ANOTHER:
            words = ", ".join(sorted(one.value for one in states)) or "not known to the mirror yet"
            raise SwitchRefused([Obstacle(
                f"it is {words}: nothing to begin anew. Only a topic that is another one at the "
                f"source is: {', '.join(sorted(one.value for one in ANOTHER))}", self._topic,
            )])  # fmt: skip

    def _put_into_files(self, held: MirrorTopic, folder: Path) -> CopiedAgain:
        places = [TopicPartition(self._name, index) for index in range(held.partitions)]
        starts, ends = self._target.leaders.starts(places), self._target.leaders.ends(places)
        if unknown := [each for each in places if each not in starts or each not in ends]:
            raise SwitchUnfinished(
                f"{self._target.name}: no leader of {unknown[0].topic}-{unknown[0].partition} "
                "answers; nothing has changed. Run the same command again"
            )
        files, records = [], 0
        for place in places:
            if starts[place] >= ends[place]:
                continue
            with DivergedRecordFile(folder, place) as file:
                file.add_range(self._target.leaders.fetch, starts[place], ends[place])
                file.finish()
            files.append(str(file.path))
            records += file.records
            self._on_step("kept", f"{place.topic}-{place.partition}: {file.records}: {file.path}")
        return CopiedAgain(topic=self._topic, records=records, files=tuple(files))

    def _delete(self, held: MirrorTopic) -> None:
        if held.configs.get(SOURCE_CLUSTER_KEY):
            retried(lambda: self._target.free(self._name), self._timeout_s)
        try:
            retried(lambda: self._target.admin.delete_topic(self._name), self._timeout_s)
        except BusError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        self._on_step("deleted", f"{self._name} ({held.topic_id.hex()})")

    def _wait_until_copied(self) -> None:
        """Raises SwitchUnfinished."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            states = states_of_topic(self._read_status(), self._topic)
            if states and all(one.copies for one in states) and self._is_there():
                self._on_step("copied", self._topic)
                return
            if time.monotonic() > deadline:
                words = ", ".join(sorted(one.value for one in states)) or "nothing"
                raise SwitchUnfinished(
                    f"{self._topic}: the old one is gone, and the mirror does not copy the new one "
                    f"yet (it says {words}). Look at: databus mirror status"
                )
            time.sleep(POLL_S)

    def _is_there(self) -> bool:
        return self._name in self._target.topics()


def _read(path: Path) -> CopiedAgain:
    return msgspec.json.decode(path.read_bytes(), type=CopiedAgain)


def states_of_topic(status: MirrorStatus, topic: str) -> set[MirrorState]:
    """Of the topic, and of its partitions."""
    found = {state_named(one.state) for one in status.topics if one.topic == topic}
    return found | {state_named(one.state) for one in status.partitions if one.topic == topic}
