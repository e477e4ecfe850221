"""`python -m broker.server`: one broker in the foreground, without the rest of the product."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from broker.config.key import ConfigError
from broker.config.properties import read_properties
from broker.disk.port import DirectoryLocked
from broker.log.directories import WrongDirectory
from broker.network.port import ListenError
from broker.server.listeners import ListenerError
from broker.server.process import run
from broker.settings import SettingError

OPERATOR_ERRORS = (
    ConfigError, SettingError, ListenerError, ListenError, WrongDirectory, DirectoryLocked
)


def main() -> int:
    """Exit status 0 after a clean stop, 1 with one sentence for what an operator must mend."""
    parser = argparse.ArgumentParser(prog="python -m broker.server", description=__doc__)
    parser.add_argument("--config", type=Path, help="a server.properties of Kafka")
    parser.add_argument("--data-dir", default="var/broker")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        properties = read_properties(arguments.config.read_text()) if arguments.config else {}
        properties |= dict(text.partition("=")[::2] for text in arguments.override)
        run(properties, data_dir=arguments.data_dir)
    except OPERATOR_ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
