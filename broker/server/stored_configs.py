"""Configurations as the metadata holds them, read so that no stored value can stop a broker.

In: texts of committed records. Out: the configuration of every key that makes sense here; one that
does not keeps its default, is logged once and counted. Never: a refusal; whether a value may be
stored is decided before it is (`controller/decisions/configs.py`). A record that slipped through,
or was written by another version, comes again at every start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig, TopicConfig

log = logging.getLogger("broker.server")

MOST_REMEMBERED = 10_000
"""Refused keys that are not logged again; one an operator sees at all is enough to look."""

Texts = Mapping[str, str]


class StoredConfigs:
    """Invariant: `refused` has each (resource, key, text) that was left out, once."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str, str], None] = {}

    def topic(self, broker: BrokerConfig, name: str, overrides: Texts) -> TopicConfig:
        """A topic's configuration in force."""
        try:
            return TopicConfig.of(broker, overrides)
        except ConfigError:
            sound = self._sound(f"topic {name}", overrides, lambda one: TopicConfig.of(broker, one))
            return TopicConfig.of(broker, sound)

    def broker(self, config: BrokerConfig, default: Texts, own: Texts) -> BrokerConfig:
        """The broker's configuration with what was set while it runs."""
        try:
            return config.with_dynamic(default, own)
        except ConfigError:
            check = lambda one: config.with_dynamic(one, {})  # noqa: E731
            return config.with_dynamic(
                self._sound("all brokers", default, check), self._sound("this broker", own, check)
            )

    def _sound(self, resource: str, texts: Texts, read: Callable[[Texts], object]) -> Texts:
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
        if len(self.refused) < MOST_REMEMBERED and (resource, key, text) not in self.refused:
            self.refused[resource, key, text] = None
            log.error(
                "%s of %s is stored but cannot be in force here, its default is: %s",
                key, resource, error,
            )  # fmt: skip
