"""All stories: which fault, under which controller, with which clients.

In: the faults. Out: every story by name, and its kind, so that a choice can hold one of each.
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
class Member:
    """One story."""

    name: str
    fault: Fault
    needs: Needs = field(default_factory=Needs)
    java: bool = False

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return next(kind for kind in KINDS if self.name.startswith(kind))


def _members() -> list[Member]:
    found = []
    for controller in CONTROLLERS:
        plain = Needs(controller)
        wired = Needs(controller, networks=True)
        found += [
            Member(f"kill-leader-{controller}", faults.kill_the_leader, plain),
            Member(f"kill-leader-java-{controller}", faults.kill_the_leader, plain, java=True),
            Member(f"kill-leaders-{controller}", faults.kill_the_leader_again_and_again, plain),
            Member(f"kill-controller-{controller}", faults.kill_the_controller, plain),
            Member(f"kill-follower-{controller}", faults.kill_a_follower, plain),
            Member(f"kill-two-{controller}", faults.kill_two_of_three, plain),
            Member(f"pause-leader-{controller}", faults.pause_the_leader, plain),
            Member(f"pause-controller-{controller}", faults.pause_the_controller, plain),
            Member(f"rolling-{controller}", faults.restart_in_turn, plain),
            Member(f"rolling-java-{controller}", faults.restart_in_turn, plain, java=True),
            Member(f"cut-leader-drop-{controller}", faults.cut_off_the_leader("drop"), wired),
            Member(f"cut-leader-reject-{controller}", faults.cut_off_the_leader("reject"), wired),
            Member(f"cut-controller-{controller}", faults.cut_off_the_controller("drop"), wired),
            Member(f"cut-follower-drop-{controller}", faults.cut_off_a_follower("drop"), wired),
            Member(f"cut-between-two-{controller}", faults.cut_between_two, wired),
            Member(f"slow-link-{controller}", faults.slow_link, Needs(controller, link=True)),
            Member(f"full-disk-{controller}", faults.full_disk, Needs(controller, small_disk=True)),
            Member(
                f"stalled-disk-{controller}", faults.stalled_disk, Needs(controller, strace=True)
            ),
        ]
    apart = Needs("kraft", separate_controllers=3)
    found += [
        Member("kill-separate-controller", faults.kill_the_controller, apart),
        Member("pause-separate-controller", faults.pause_the_controller, apart),
        Member("kill-leader-separate-controllers", faults.kill_the_leader, apart),
    ]
    return found


MEMBERS: tuple[Member, ...] = tuple(_members())
