"""A process that starts the child as a broker does, tells its pid, and does nothing else."""

from __future__ import annotations

import asyncio
import json

from broker.cleaner_process.real import RealCleanerProcess


async def main() -> None:
    """Until it is killed."""
    process = RealCleanerProcess("tests.broker.cleaner_process.echo_child")
    async for _ in process.run(json.dumps(["hello", "wait"]).encode()):
        print(process.pid, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
