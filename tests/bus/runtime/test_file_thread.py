"""A call that hangs is given up in time, and nothing is begun behind it until it ends."""

from __future__ import annotations

import threading

import pytest

from bus.runtime.file_thread import FileThread


class Away(Exception):
    """The file does not answer."""


async def test_a_call_that_hangs_is_given_up_and_no_other_begins_until_it_ends() -> None:
    """Threads must not pile up behind a disk that hangs."""
    thread, release, began = FileThread("file", 0.05, Away), threading.Event(), []

    def hang() -> None:
        began.append("first")
        release.wait(30)

    with pytest.raises(Away, match="no answer"):
        await thread.run(hang)
    with pytest.raises(Away, match="no answer"):
        await thread.run(began.append, "second")
    assert began == ["first"]
    release.set()
    patient = 600
    while True:
        try:
            await thread.run(began.append, "third")
            break
        except Away:
            patient -= 1
            assert patient
    assert began == ["first", "third"]
    thread.close()


async def test_a_result_and_an_error_are_those_of_the_call() -> None:
    thread = FileThread("file", 30, Away)
    assert await thread.run(int, "12") == 12
    with pytest.raises(ValueError, match="invalid literal"):
        await thread.run(int, "x")
    thread.close()
