"""The language of the stories in `stories/`: runs one command and shows what it changed.

Commands: brokers 1 2 3 | rack 1 a | topic NAME 1,2,3 [1,2,3 ...] | place NAME PARTITIONS FACTOR |
fence B | unfence B | start B | start-unclean B | duplicate B | beat B [fence|stop] |
isr NAME-P 1,2 | elect preferred|unclean NAME-P | balance | unclean-check |
move NAME-P 4,5 | cancel NAME-P | config TOPIC|- KEY=VALUE|KEY | show
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.controller.decisions import elections
from broker.controller.decisions.partition_change import Election
from broker.metadata.image import PartitionImage, TopicImage
from tests.broker.controller.decisions.world import ControlWorld


class DecisionStory:
    """Runs the commands of one story."""

    def __init__(self, level: int, min_isr: int) -> None:
        self.world = ControlWorld(level, min_isr)
        self._shown: dict[str, str] = {}
        self._racks: dict[int, str] = {}
        self._verbs: dict[str, Callable[[list[str]], object]] = {
            "brokers": lambda words: self.world.start(*map(int, words), racks=self._racks),
            "rack": lambda words: self._racks.update({int(words[0]): words[1]}),
            "topic": lambda words: self.world.create_at(words[0], *map(_ids, words[1:])).error,
            "place": lambda words: self.world.create(words[0], int(words[1]), int(words[2])).error,
            "fence": lambda words: self.world.fence(int(words[0])),
            "unfence": lambda words: self.world.unfence(int(words[0])),
            "start": lambda words: self.world.register(int(words[0])).error,
            "start-unclean": lambda words: self.world.register(int(words[0]), clean=False).error,
            "duplicate": lambda words: self.world.register(
                int(words[0]), alive=True, port=1, log_dirs=(b"x" * 16,)
            ).error,
            "beat": self._beat,
            "isr": lambda words: self.world.isr(*_place(words[0]), *_ids(words[1])),
            "elect": lambda words: self.world.elect(
                Election(words[0]), *([_place(words[1])] if len(words) > 1 else [])
            ),
            "balance": lambda _: self.world.decide(
                elections.balance_leaders(self.world.image, self.world.rules)
            ),
            "unclean-check": lambda _: self.world.decide(
                elections.elect_uncleanly(self.world.image, self.world.rules)
            ),
            "move": lambda words: self.world.move(*_place(words[0]), _ids(words[1])),
            "cancel": lambda words: self.world.move(*_place(words[0]), None),
            "config": self._config,
            "show": lambda _: self._shown.clear(),
        }

    def run(self, command: str) -> Iterable[str]:
        """Runs one command; returns its answer and every partition it changed."""
        verb, *words = command.split()
        reply = self._verbs[verb](words)
        name = getattr(reply, "name", None)
        if name is not None:
            yield str(name)
        elif isinstance(reply, str):
            yield reply
        for topic in self.world.image.topics.values():
            for partition in topic.partitions:
                yield from self._news(topic, partition)

    def _news(self, topic: TopicImage, partition: PartitionImage) -> Iterable[str]:
        key, line = f"{topic.name}-{partition.index}", _line(partition)
        if self._shown.get(key) != line:
            self._shown[key] = line
            yield f"{key}: {line}"

    def _beat(self, words: list[str]) -> str:
        wants = {"fence": "want_fence", "stop": "want_shut_down"}
        answer = self.world.beat(int(words[0]), **{wants[word]: True for word in words[1:]})
        return answer.error.name if answer.error else answer.state.value

    def _config(self, words: list[str]) -> object:
        key, _, value = words[1].partition("=")
        return self.world.set_config("" if words[0] == "-" else words[0], key, value or None)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


def _place(text: str) -> tuple[str, int]:
    name, _, index = text.rpartition("-")
    return name, int(index)


def _line(partition: PartitionImage) -> str:
    parts = [
        f"leader {'none' if partition.leader < 0 else partition.leader}",
        f"epoch {partition.leader_epoch}",
        f"isr {_list(partition.isr)}",
    ]
    if partition.elr:
        parts.append(f"elr {_list(partition.elr)}")
    if partition.last_known_elr:
        parts.append(f"last leader {_list(partition.last_known_elr)}")
    if partition.recovery:
        parts.append("recovering")
    parts.append(f"replicas {_list(partition.replicas)}")
    if partition.adding_replicas:
        parts.append(f"adding {_list(partition.adding_replicas)}")
    if partition.removing_replicas:
        parts.append(f"removing {_list(partition.removing_replicas)}")
    return "  ".join(parts)


def _list(ids: tuple[int, ...]) -> str:
    return "[" + ",".join(str(one) for one in ids) + "]"
