"""Who has to wait for how long, against a plain model: all uses in a list, all levels in a row."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from broker.quotas.client_quotas import MOST_CLIENTS, ClientQuotas, QuotaKind, Throttle
from broker.quotas.connection_rates import ConnectionRates
from broker.quotas.quota_index import QuotaIndex
from broker.quotas.quota_rate import QuotaRate, QuotaWindows
from bus.protocol.quota_entities import CLIENT_ID, IP, USER

WINDOWS = QuotaWindows(11, 1000)
PRODUCE, FETCH = QuotaKind.PRODUCE, QuotaKind.FETCH
Quotas = dict[tuple[tuple[str, str | None], ...], dict[str, float]]


class Told:
    """What the quotas report."""

    def __init__(self) -> None:
        self.throttles: list[Throttle] = []
        self.forgotten: list[tuple[QuotaKind, str, str]] = []

    def quotas(self) -> ClientQuotas:
        return ClientQuotas(
            WINDOWS, WINDOWS, self.throttles.append,
            lambda *who: self.forgotten.append(who), frozenset({"MIRROR"}),
        )  # fmt: skip


def of_client(client_id: str | None, **values: float) -> Quotas:
    return {((CLIENT_ID, client_id),): values}


USES = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 10_000)), min_size=1, max_size=60)


@given(uses=USES)
def test_the_rate_is_what_was_used_in_samples_that_are_not_over(uses: list[tuple[int, int]]) -> None:
    """Each sample begins with a use; it is over eleven seconds after its last one."""
    rate, now_ms = QuotaRate(WINDOWS), 0
    samples: list[list[tuple[int, int]]] = []
    for pause_ms, amount in uses:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        if not samples or now_ms - samples[-1][0][0] >= 1000:
            samples.append([])
        samples[-1].append((now_ms, amount))
        counted = [one for one in samples if now_ms - one[-1][0] < 11_000]
        since_ms = now_ms - counted[0][0][0]
        over_ms = since_ms if since_ms >= 10_000 else 10_000 + since_ms % 1000
        total = sum(amount for sample in counted for _, amount in sample)
        assert abs(rate.per_second(now_ms) - total * 1000 / over_ms) < 0.001


LEVELS = [
    ("ann", "camera"), ("ann", None), ("ann", "-"), (None, "camera"), (None, None), (None, "-"),
    ("-", "camera"), ("-", None),
]  # fmt: skip
"""Of the client "camera" of the user "ann", in Kafka's order; "-": not told apart, None: the default."""


@given(present=st.lists(st.sampled_from(range(8)), unique=True))
def test_of_eight_levels_the_most_special_one_counts(present: list[int]) -> None:
    """Others' quotas never count; users of one limit share it unless it tells them apart."""
    quotas: Quotas = {}
    for level in [*present, "of another user", "of another client"]:
        user, client = {
            "of another user": ("bob", "-"), "of another client": ("-", "edge"),
        }.get(str(level)) or LEVELS[int(level)]  # fmt: skip
        entity = tuple((kind, name) for kind, name in ((CLIENT_ID, client), (USER, user)) if name != "-")
        quotas[entity] = {PRODUCE.value: 1.0 + (level if isinstance(level, int) else 100)}
    found = QuotaIndex(quotas, PRODUCE).find("ann", "camera")
    if not present:
        assert found is None
        return
    user, client = LEVELS[min(present)]
    assert found == (
        1.0 + min(present), "" if user == "-" else "ann", "" if client == "-" else "camera",
    )  # fmt: skip


def test_a_changed_quota_counts_at_the_next_use_with_what_was_used_before() -> None:
    told = Told()
    quotas = told.quotas()
    changes: list[frozenset[QuotaKind]] = []
    quotas.on_limited.append(lambda: changes.append(quotas.limited))
    quotas.follow(of_client("c", producer_byte_rate=1000.0))
    assert quotas.record(PRODUCE, "ann", "c", 10_000, 0) == 0
    quotas.follow(of_client("c", producer_byte_rate=500.0))
    assert quotas.record(PRODUCE, "bob", "c", 0, 0) == 10_000
    quotas.follow(of_client("c", consumer_byte_rate=500.0))
    assert (quotas.record(PRODUCE, "ann", "c", 1 << 40, 0), quotas.limits_fetch) == (0, True)
    quotas.follow({})
    assert changes == [{PRODUCE}, {FETCH}, frozenset()]
    assert [throttle.wait_ms for throttle in told.throttles] == [10_000]
    assert told.forgotten == [(PRODUCE, "", "c")]


def test_what_is_taken_back_was_never_used() -> None:
    quotas = Told().quotas()
    quotas.follow(of_client(None, consumer_byte_rate=100.0))
    for now_ms in (0, 500, 5000):
        assert quotas.record(FETCH, "ann", "c", 2000, now_ms) > 0
        quotas.take_back(FETCH, "ann", "c", 2000, now_ms)
    assert quotas.record(FETCH, "ann", "c", 1000, 6000) == 0
    assert quotas.most_bytes("ann", "c") == 1000


def test_names_without_end_are_forgotten_the_longest_idle_first() -> None:
    """Those who wait least lose nothing: their windows are over before they are forgotten."""
    told = Told()
    quotas = told.quotas()
    quotas.follow(of_client(None, producer_byte_rate=100.0))
    for number in range(MOST_CLIENTS + 3):
        quotas.record(PRODUCE, "ann", f"c{number}", 5000, number)
    assert told.forgotten == [(PRODUCE, "", f"c{number}") for number in range(3)]
    quotas.record(PRODUCE, "ann", "late", 1, 20_000)
    assert len(told.forgotten) == MOST_CLIENTS + 3


def test_no_wait_is_longer_than_a_response_can_say() -> None:
    quotas = Told().quotas()
    quotas.follow(of_client("c", producer_byte_rate=1.0, controller_mutation_rate=1e-9))
    assert quotas.record(PRODUCE, "ann", "c", 1 << 50, 0) == (1 << 31) - 1
    changes = quotas.mutations("ann", "c", 0, is_strict=False)
    assert changes is not None
    assert changes.allows(10_000, 0)
    assert changes.finish() == (1 << 31) - 1


def test_request_time_holds_nobody_back_for_longer_than_a_window() -> None:
    quotas = Told().quotas()
    quotas.follow(of_client("c", request_percentage=1.0))
    assert quotas.record(QuotaKind.REQUEST, "ann", "c", 10, 0) == 0
    assert quotas.record(QuotaKind.REQUEST, "ann", "c", 0.5, 0) == 500
    assert quotas.record(QuotaKind.REQUEST, "ann", "c", 5000, 0) == 1000


def test_who_owes_tokens_owes_them_for_as_long_as_it_takes(dice: random.Random) -> None:
    """Also when others push in: what is owed outlasts the windows."""
    quotas = Told().quotas()
    quotas.follow(of_client(None, controller_mutation_rate=1.0))
    first = quotas.mutations("ann", "c", 0, is_strict=True)
    assert first is not None
    assert first.allows(111, 0)
    assert first.finish() == 0
    for now_ms in sorted(dice.sample(range(100_000), 50)):
        assert quotas.mutations("ann", f"other-{now_ms}", now_ms, is_strict=True) is not None
        again = quotas.mutations("ann", "c", now_ms, is_strict=True)
        assert again is not None
        assert not again.allows(1, now_ms)
        assert again.finish() == 100_000 - now_ms
    last = quotas.mutations("ann", "c", 100_000, is_strict=True)
    assert last is not None
    assert last.allows(1, 100_000)


def test_an_address_connects_as_often_as_it_may_and_others_are_not_asked() -> None:
    """However a socket writes it; the default is for all that have no quota of their own, and what
    is too much does not count."""
    refused: list[None] = []
    rates = ConnectionRates(WINDOWS, lambda: refused.append(None))
    assert [rates.wait_ms("10.0.0.1", 0) for _ in range(1000)] == [0] * 1000
    key = "connection_creation_rate"
    rates.follow({
        ((IP, "10.0.0.1"),): {key: 2.0}, ((IP, "2001:DB8:0:0::1"),): {key: 1.0},
        ((IP, None),): {key: 3.0}, ((IP, "camera.example"),): {key: 0.1}, ((USER, "10.0.0.9"),): {},
    })  # fmt: skip
    for address, most in (("10.0.0.1", 20), ("2001:db8::1", 10), ("10.0.0.9", 30)):
        waits = [rates.wait_ms(address, 0) for _ in range(40)]
        assert (waits[:most], set(waits[most:])) == ([0] * most, {round(10_000 / most)})
    assert rates.wait_ms("::ffff:10.0.0.1", 0) > 0
    assert len(refused) == 20 + 30 + 10 + 1
    assert rates.wait_ms("10.0.0.1", 11_000) == 0
    rates.follow({})
    assert rates.wait_ms("10.0.0.1", 11_000) == 0
