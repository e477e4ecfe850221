"""Rates from the brokers' counters."""

from __future__ import annotations

from monitor.cluster.traffic import BYTES_IN, BYTES_OUT, BrokerTraffic, Rates, metrics_urls


def page(bytes_in: float, bytes_out: float) -> str:
    return f'{BYTES_IN}{{topic="a"}} 7\n{BYTES_IN} {bytes_in}\n{BYTES_OUT} {bytes_out}\nbroken\n'


def test_a_rate_needs_two_pages_and_begins_anew_with_the_broker():
    traffic = BrokerTraffic()
    traffic.update(1, page(1000, 0), 10.0)
    assert traffic.rates[1] == Rates(None, None)
    traffic.update(1, page(3000, 500), 12.0)
    assert traffic.rates[1] == Rates(1000.0, 250.0)
    traffic.update(1, page(10, 600), 13.0)
    assert traffic.rates[1] == Rates(None, 100.0)
    traffic.update(1, None, 14.0)
    assert traffic.rates == {}


def test_where_the_brokers_show_their_metrics_is_one_setting():
    setting = "1=http://a:1/metrics, 2=http://b:2/metrics?x=1"
    assert metrics_urls(setting) == {1: "http://a:1/metrics", 2: "http://b:2/metrics?x=1"}
    assert metrics_urls("") == {}
    assert metrics_urls("nonsense, x=y") == {}
