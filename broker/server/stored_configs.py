"""Reads configurations from the metadata so that no stored value can stop a broker.

A key with an invalid value keeps its default, is logged once and counted. Whether a value may be
stored is checked before it is (`controller/decisions/configs.py`); but a record that passed that
check, or was written by another version, is read again at every start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig, TopicConfig

log = logging.getLogger("broker.server")

MAX_REMEMBERED = 10_000
"""Refused keys that are not logged again; an operator who sees one line will look further."""

Texts = Mapping[str, str]


class StoredConfigs:
    """Invariant: `refused` has each invalid (resource, key, text) once."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str, str], None] = {}

    def topic(self, broker: BrokerConfig, name: str, overrides: Texts) -> TopicConfig:
        """A topic's effective configuration."""
        try:
            return TopicConfig.of(broker, overrides)
        except ConfigError:
            sound = self._valid(f"topic {name}", overrides, lambda one: TopicConfig.of(broker, one))
            return TopicConfig.of(broker, sound)

    def broker(self, config: BrokerConfig, default: Texts, own: Texts) -> BrokerConfig:
        """The broker's configuration with its dynamic values."""
        try:
            return config.with_dynamic(default, own)
        except ConfigError:
            check = lambda one: config.with_dynamic(one, {})  # noqa: E731
            return config.with_dynamic(
                self._valid("all brokers", default, check), self._valid("this broker", own, check)
            )

    def _valid(self, resource: str, texts: Texts, read: Callable[[Texts], object]) -> Texts:
        sound = {}
        for key, text in texts.items():
            try:
                read({key: text})
            except ConfigError as error:
                self._refuse(resource, key, text, error)
            else:
                sound[key] = text
        return sound

    def _refuse(self, resource: str, key: str, text: str, error: ConfigError) -> None:
        if len(self.refused) < MAX_REMEMBERED and (resource, key, text) not in self.refused:
            self.refused[resource, key, text] = None
            log.error(
                "%s of %s is stored but cannot be in force here, its default is: %s",
                key, resource, error,
            )  # fmt: skip
