"""`up`: the product's processes on this machine.

In: settings. Out: supervised processes until Ctrl-C or SIGTERM. Never: business logic.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.roles.prepare import prepare
from deploy.roles.table import PRODUCT, children, console_address
from deploy.settings.composed import Settings
from deploy.supervisor.supervise import check_not_running, in_the_background, supervise


async def up(settings: Settings, names: Sequence[str] = PRODUCT) -> int:
    """Supervise until asked to stop; exit status 1 when a role was given up."""
    processes = children(settings, names)
    folder = settings.site.data_path
    check_not_running(folder, processes)
    prepare(settings)
    return await supervise(processes, folder, announcements=[console_address(settings)])


def detach(settings: Settings) -> int:
    """Start `up` in the background and return when every role answers."""
    check_not_running(settings.site.data_path, children(settings, PRODUCT))
    status = in_the_background(settings, ["up"])
    print(console_address(settings))
    return status
