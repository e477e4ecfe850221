"""`python -m broker.server`: one broker in the foreground, without the rest of the product."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from broker.config.properties import read_properties
from broker.server.process import run
from bus.runtime.log_format import log_to_stderr


def main() -> int:
    """Read the arguments, run the broker."""
    parser = argparse.ArgumentParser(prog="python -m broker.server", description=__doc__)
    parser.add_argument("--config", type=Path, help="a server.properties of Kafka")
    parser.add_argument("--data-dir", default="var/broker")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    log_to_stderr()
    properties = read_properties(arguments.config.read_text()) if arguments.config else {}
    properties |= dict(text.partition("=")[::2] for text in arguments.override)
    return run(properties, data_dir=arguments.data_dir)


if __name__ == "__main__":
    sys.exit(main())
