"""All stories: which fault, with which controller and which clients.

In: the faults. Out: every story by name, and its kind, so that a choice can have one of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.processes.cluster import faults
from tests.processes.cluster.faults import Fault
from tests.processes.cluster.theatre import Needs

CONTROLLERS = ("kraft", "zookeeper")
KINDS = ("kill", "pause", "rolling", "cut", "slow-link", "full-disk", "stalled-disk")
"""What happens, the beginning of a story's name."""


@dataclass(frozen=True, slots=True)
class ClusterStory:
    """One story."""

    name: str
    fault: Fault
    needs: Needs = field(default_factory=Needs)
    java: bool = False

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return next(kind for kind in KINDS if self.name.startswith(kind))


def _stories() -> list[ClusterStory]:
    found = []
    for controller in CONTROLLERS:
        plain = Needs(controller)
        wired = Needs(controller, networks=True)
        found += [
            ClusterStory(f"kill-leader-{controller}", faults.kill_the_leader, plain),
            ClusterStory(f"kill-leader-java-{controller}", faults.kill_the_leader, plain, java=True),
            ClusterStory(f"kill-leaders-{controller}", faults.kill_the_leader_again_and_again, plain),
            ClusterStory(f"kill-controller-{controller}", faults.kill_the_controller, plain),
            ClusterStory(f"kill-follower-{controller}", faults.kill_a_follower, plain),
            ClusterStory(f"kill-two-{controller}", faults.kill_two_of_three, plain),
            ClusterStory(f"pause-leader-{controller}", faults.pause_the_leader, plain),
            ClusterStory(f"pause-controller-{controller}", faults.pause_the_controller, plain),
            ClusterStory(f"rolling-{controller}", faults.restart_in_turn, plain),
            ClusterStory(f"rolling-java-{controller}", faults.restart_in_turn, plain, java=True),
            ClusterStory(f"cut-leader-drop-{controller}", faults.cut_off_the_leader("drop"), wired),
            ClusterStory(f"cut-leader-reject-{controller}", faults.cut_off_the_leader("reject"), wired),
            ClusterStory(f"cut-controller-{controller}", faults.cut_off_the_controller("drop"), wired),
            ClusterStory(f"cut-follower-drop-{controller}", faults.cut_off_a_follower("drop"), wired),
            ClusterStory(f"cut-between-two-{controller}", faults.cut_between_two, wired),
            ClusterStory(f"slow-link-{controller}", faults.slow_link, Needs(controller, link=True)),
            ClusterStory(f"full-disk-{controller}", faults.full_disk, Needs(controller, small_disk=True)),
            ClusterStory(
                f"stalled-disk-{controller}", faults.stalled_disk, Needs(controller, strace=True)
            ),
        ]
    apart = Needs("kraft", separate_controllers=3)
    found += [
        ClusterStory("kill-separate-controller", faults.kill_the_controller, apart),
        ClusterStory("pause-separate-controller", faults.pause_the_controller, apart),
        ClusterStory("kill-leader-separate-controllers", faults.kill_the_leader, apart),
    ]
    return found


STORIES: tuple[ClusterStory, ...] = tuple(_stories())
