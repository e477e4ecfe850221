"""Checks a change of a broker's configuration before it goes to the controller: whether it is this
broker's, whether its thread counts change by at most a factor of two, and whether cordoned log
directories exist here.

Only the broker that a client asks can check this: the controller, and a broker that forwards a
request, cannot tell one broker's configuration from another's. Errors are in Kafka's words.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.key import ConfigError
from broker.config.keys import parse
from broker.config.views import BrokerConfig
from broker.controller.decisions.config_values import broker_values, check_alterations
from broker.controller.decisions.configs import ConfigResult, InForce, ResourceAlteration
from broker.controller.decisions.decision import RefusedError
from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.handlers.services import Services
from broker.metadata.image import ResourceType
from bus.errors import ErrorCode

THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
CLEANER_THREADS = "log.cleaner.threads"
CREATION_RATE = "max.connection.creation.rate"


def refused_here(
    resource: ResourceAlteration, context: RequestContext, in_force: InForce
) -> ConfigResult | None:
    """The error because of which this broker does not even ask the controller."""
    if (
        resource.resource_type != ResourceType.BROKER
        or context.listener_type is ListenerType.CONTROLLER
    ):
        return None
    try:
        check_alterations(resource.alterations)
        fault = _not_this_broker(resource.name, context.services.node_id)
        fault = fault or _own_fault(resource, context.services, in_force)
    except (RefusedError, ConfigError):
        return None  # the controller reports the same, or an earlier stored value is invalid
    if fault is None:
        return None
    return ConfigResult(resource.resource_type, resource.name, ErrorCode.INVALID_REQUEST, fault)


def _not_this_broker(name: str, node_id: int) -> str | None:
    if not name:
        return None
    try:
        number = int(name)
    except ValueError:
        return f"Node id must be an integer, but it is: {name}"
    if number == node_id:
        return None
    return f"Unexpected broker id, expected {node_id}, but received {name}"


def _own_fault(resource: ResourceAlteration, services: Services, in_force: InForce) -> str | None:
    layers = {
        name: dict(services.metadata.image.configs.get((ResourceType.BROKER, name), {}))
        for name in ("", str(services.node_id))
    }
    name = str(int(resource.name)) if resource.name else ""
    held = {} if resource.replace_all else layers[name]
    changed = broker_values(name, held, resource.alterations, in_force.broker)
    layers[name] = {key: text for key, text in (held | changed).items() if text is not None}
    wanted = services.metadata.config.with_dynamic(layers[""], layers[str(services.node_id)])
    foreign = [one for one in wanted.cordoned_log_dirs if one not in wanted.log_dirs]
    if foreign:
        return (
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
            f"log.dir. Missing entries : {', '.join(foreign)}"
        )
    fault = _thread_fault(services.metadata.config, wanted) or _creation_fault(changed)
    if fault is None:
        return None
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {fault} for configuration "
        f"Invalid dynamic configuration"
    )


def _creation_fault(changed: Mapping[str, str | None]) -> str | None:
    for key, text in changed.items():
        is_rate = key == CREATION_RATE or key.endswith(f".{CREATION_RATE}")
        if is_rate and text is not None and parse(CREATION_RATE, text) == 0:
            return f"Invalid {CREATION_RATE} 0"
    return None


def _thread_fault(now: BrokerConfig, wanted: BrokerConfig) -> str | None:
    for key in THREADS:
        old, new = now[key], wanted[key]
        message = f"Dynamic thread count update validation failed for {key}={new}, value should"
        if new < old // 2:
            return f"{message} be at least half the current value {old}"
        if new > old * 2:
            return f"{message} not be greater than double the current value {old}"
    old, new = now[CLEANER_THREADS], wanted[CLEANER_THREADS]
    if new < old // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {old}"
    if new > old * 2:
        return (
            f"Log cleaner threads cannot be increased to more than double the current value {old}"
        )
    return None
