"""How long new connections wait, against a plain model: all connections in a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.quotas.creation_rates import CreationRates
from broker.quotas.quota_rate import QuotaWindows

WINDOWS = QuotaWindows(11, 1000)
UNBOUNDED = float((1 << 31) - 1)
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
COMING = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([CLIENTS, BROKERS])), min_size=1, max_size=300
)


def model_ms(times: list[int], bound: float) -> int:
    """How long the last of these connections waits, within the first second of them."""
    rate = len(times) / (10 + (times[-1] - times[0]) / 1000)
    if rate <= bound:
        return 0
    span_ms = 10_000 + times[-1] - times[0]
    return min(round((rate - bound) / bound * span_ms), 1000)


@given(
    coming=COMING,
    together=st.sampled_from([0.5, 2.0, 10.0, UNBOUNDED]),
    clients=st.sampled_from([1.0, 5.0, UNBOUNDED]),
    brokers=st.sampled_from([1.0, UNBOUNDED]),
)
def test_the_longer_wait_counts_and_the_brokers_have_their_own_only(
    coming: list[tuple[int, str]], together: float, clients: float, brokers: float
) -> None:
    """Within the first second, when there is one sample; over longer times Kafka itself is asked."""
    rates = CreationRates(WINDOWS, [BROKERS])
    bounds = {CLIENTS: clients, BROKERS: brokers}
    rates.limit(together, bounds)
    taken: dict[str, list[int]] = {CLIENTS: [], BROKERS: []}
    now_ms = 0
    for pause_ms, listener in coming:
        now_ms += pause_ms
        if now_ms >= 1000:
            break
        taken[listener].append(now_ms)
        wait_ms = rates.wait_ms(listener, now_ms)
        expected_ms = model_ms(taken[listener], bounds[listener])
        if listener == CLIENTS:
            expected_ms = max(expected_ms, model_ms(taken[CLIENTS], together))
        assert abs(wait_ms - expected_ms) <= 1
        assert 0 <= wait_ms <= WINDOWS.window_ms


def test_what_was_taken_before_a_bound_counts_against_it() -> None:
    rates = CreationRates(WINDOWS, [])
    rates.limit(UNBOUNDED, {CLIENTS: UNBOUNDED})
    assert [rates.wait_ms(CLIENTS, 0) for _ in range(30)] == [0] * 30
    rates.limit(UNBOUNDED, {CLIENTS: 3.0})
    assert rates.wait_ms(CLIENTS, 0) == 333
    rates.limit(3.0, {CLIENTS: UNBOUNDED})
    assert rates.wait_ms(CLIENTS, 0) == 667
    assert rates.wait_ms(CLIENTS, 20_000) == 0


def test_with_a_bound_of_nothing_each_connection_waits_for_a_window() -> None:
    rates = CreationRates(WINDOWS, [])
    rates.limit(0.0, {CLIENTS: UNBOUNDED})
    assert [rates.wait_ms(CLIENTS, now_ms) for now_ms in (0, 50_000)] == [1000, 1000]
