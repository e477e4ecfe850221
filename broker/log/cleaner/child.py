"""The process in which logs are cleaned; the broker runs ``python -m broker.log.cleaner.child``."""

from __future__ import annotations

from functools import partial

from broker.cleaner_process.real_child import serve
from broker.disk.real import RealDisk
from broker.log.cleaner.order_runner import run_order

if __name__ == "__main__":
    serve(partial(run_order, RealDisk()))
