"""What Ctrl-C asks for, the first time and the second."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from deploy.supervisor.supervise import stop_on_signals

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_second_signal_is_a_hurry_also_where_the_loop_had_not_heard_the_first(
    number: signal.Signals,
) -> None:
    loop, asked, hurry = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    stop_on_signals(asked, hurry)
    try:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(asked.wait(), 10)
        assert not hurry.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(hurry.wait(), 10)
        asked.clear(), hurry.clear()
        for _ in range(2):
            os.kill(os.getpid(), number)
            time.sleep(0.01)  # the loop is held, as by a store that does not answer
        await asyncio.wait_for(hurry.wait(), 10)
    finally:
        for one in SIGNALS:
            loop.remove_signal_handler(one)
