"""The readers that `deploy` passes fit the ports of this package."""

from __future__ import annotations

import inspect

from alarm.dispatch.reader import OperationsReader
from monitor.ports import AlarmReader


def test_the_operations_reader_takes_what_the_console_asks() -> None:
    """Names and parameters are compared; the package itself may not import it."""
    wanted = [n for n, v in vars(AlarmReader).items() if inspect.isfunction(v) and n[0] != "_"]
    assert len(wanted) >= 5
    for name in wanted:
        port = inspect.signature(getattr(AlarmReader, name)).parameters
        real = inspect.signature(getattr(OperationsReader, name)).parameters
        assert set(port) <= set(real), name
        for key, parameter in port.items():
            assert real[key].kind == parameter.kind, (name, key)
            assert real[key].default == parameter.default, (name, key)
