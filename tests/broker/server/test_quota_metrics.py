"""Metrics of throttled clients, and which listeners are exempt."""

from __future__ import annotations

import pytest

from broker.config.views import BrokerConfig
from broker.metrics.registry import Metrics
from broker.quotas.client_quotas import QuotaKind
from broker.server.client_quotas import MOST_METRICS, make_client_quotas
from broker.server.roles import roles_of

KRAFT = {"node.id": "1", "process.roles": "broker,controller",
         "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "1@localhost:9093"}  # fmt: skip
OF_ALL = {(("client-id", None),): {"producer_byte_rate": 1.0}}


def config_of(listeners: str, **settings: str) -> BrokerConfig:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    protocols = "A:PLAINTEXT,B:PLAINTEXT,M:PLAINTEXT,CONTROLLER:PLAINTEXT"
    return BrokerConfig.from_mapping(
        KRAFT | {"listeners": listeners, "listener.security.protocol.map": protocols} | given
    )


@pytest.mark.parametrize(("listeners", "settings", "exempt"), [
    ("A://:1,CONTROLLER://:2", {}, {"CONTROLLER"}),
    ("A://:1,CONTROLLER://:2", {"inter_broker_listener_name": "A"}, {"CONTROLLER"}),
    ("A://:1,B://:3,CONTROLLER://:2", {"inter_broker_listener_name": "B"}, {"B", "CONTROLLER"}),
    ("A://:1,M://:3,CONTROLLER://:2", {"mirror_listener_name": "M"}, {"M", "CONTROLLER"}),
])  # fmt: skip
def test_listeners_where_no_client_is_are_exempt(
    listeners: str, settings: dict[str, str], exempt: set[str]
) -> None:
    """One that brokers share with clients is not."""
    config = config_of(listeners, **settings)
    quotas = make_client_quotas(config, roles_of(config), Metrics(), lambda: 0.0)
    assert quotas.exempt_listeners == exempt


def test_each_of_the_first_who_wait_has_a_metric_until_it_is_forgotten() -> None:
    """The count is of all."""
    now_s = [0.0]
    metrics, config = Metrics(), config_of("A://:1,CONTROLLER://:2")
    quotas = make_client_quotas(config, roles_of(config), metrics, lambda: now_s[0])
    quotas.follow(OF_ALL)
    for number in range(MOST_METRICS + 5):
        assert quotas.record(QuotaKind.PRODUCE, "ann", f"c{number}", 12, 0) == 2000
    name = 'kafka_server_quota_throttle_time{clientId="c7",resource="Produce",user=""}'
    assert f"{name} 2000.0" in metrics.text()
    assert metrics.text().count("kafka_server_quota_throttle_time{") == MOST_METRICS
    assert f'throttled_total{{resource="Produce"}} {MOST_METRICS + 5}.0' in metrics.text()
    now_s[0] = 2.0
    assert f"{name} 0.0" in metrics.text()
    quotas.record(QuotaKind.PRODUCE, "ann", "new", 100, 20_000)
    assert metrics.text().count("kafka_server_quota_throttle_time{") == 1
    quotas.follow({})
    assert "kafka_server_quota_throttle_time{" not in metrics.text()
