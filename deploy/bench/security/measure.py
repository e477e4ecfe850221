"""`bench security`: what TLS, logins and ACLs cost, beside Apache Kafka on the same cores.

In: which figures, how often. Out: samples, after every round. Never: both brokers running at once;
a client of ours where bytes are counted: those are Kafka's own programs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from deploy.bench.program import answer_of_program, module_command
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt, chosen_figures
from deploy.bench.security import acls, closed_flow, java_tools
from deploy.bench.security.targets import (
    SecurityTarget,
    Start,
    add_user,
    apache_kafka,
    our_broker,
)

PREFIX = "security-"
PRODUCE, PRODUCE_CPU = "security-produce", "security-produce-cpu"
CONSUME, CONSUME_CPU = "security-consume", "security-consume-cpu"
HANDSHAKES = "security-handshakes"
LOGINS, LOGINS_TLS = "security-logins", "security-logins-tls"
ACK, ACK_MS, ACK_EVEN = "-ack", "-ack-ms", "-ack-even"
"""Behind the name of one with log-ins: how many times as long acknowledgements take, their p99, and
the same where both brokers have as many log-ins."""
ACLS = "security-acls"
ALARM = "security-alarm"

CLIENT_TIMEOUT_S = 300
WARM_S, MEASURED_S = 5, 10
PRODUCERS, RATE = 500, 1
"""The cameras that go on while others log in, and how many records a second each of them sends."""
EVEN_RATE = {LOGINS: 1000, LOGINS_TLS: 250}
"""Log-ins a second that both brokers have time for."""
TOPIC, WARM_TOPIC = "bench", "warm-up"


def chosen(only: str) -> list[str]:
    """`produce,handshakes` as names of figures; all where it is empty."""
    return chosen_figures(PREFIX, only)


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """The two brokers in turn, so that a noisy minute strikes both."""
    recorder = SampleRecorder(names, repeat, say)
    for _ in range(repeat):
        for start in (our_broker, apache_kafka):
            found = attempt("a secured broker", partial(_measured, start, names, say), say) or {}
            for name, value in found.items():
                of = "Apache Kafka" if start is apache_kafka else "ours"
                recorder.add(name, value, of=of, is_kafka=start is apache_kafka)
        if ACLS in names:
            times = attempt("ACLs", acls.cost_of_many, say)
            if times is not None:
                recorder.add(ACLS, times, of="ours")
        if ALARM in names:
            times = attempt("a closed site", partial(closed_flow.closed_beside_open, say), say)
            if times is not None:
                recorder.add(ALARM, times, of="ours")
        yield from recorder.samples()


Figures = Callable[[SecurityTarget, Path], Mapping[str, float]]


def bytes_over_tls(target: SecurityTarget, folder: Path) -> dict[str, float]:
    """MB/s each way, and milliseconds of the broker's processor per MB, its warm-up among them."""
    for program in (java_tools.produced_mb_s, java_tools.consumed_mb_s):
        program(target, "SSL", WARM_TOPIC, folder)
    whole_mb = (java_tools.WARM_RECORDS + java_tools.RECORDS) * java_tools.RECORD_BYTES / 1e6
    begin_s = target.target.cpu_s
    produced = java_tools.produced_mb_s(target, "SSL", TOPIC, folder)
    between_s = target.target.cpu_s
    consumed = java_tools.consumed_mb_s(target, "SSL", TOPIC, folder)
    end_s = target.target.cpu_s
    return {
        PRODUCE: produced,
        PRODUCE_CPU: (between_s - begin_s) / whole_mb * 1000,
        CONSUME: consumed,
        CONSUME_CPU: (end_s - between_s) / whole_mb * 1000,
    }


def handshakes(target: SecurityTarget, _: Path) -> dict[str, float]:
    """New connections with TLS a second, each until it is answered."""
    _new_connections(target, "SSL", WARM_S)
    return {HANDSHAKES: _new_connections(target, "SSL", MEASURED_S)}


def logins(name: str, target: SecurityTarget, _: Path) -> dict[str, float]:
    """Log-ins a second while 500 cameras go on, and the p99 of their acknowledgements: beside that
    of the seconds before, as it is, and where log-ins are limited to the same number."""
    protocol = "SASL_SSL" if name == LOGINS_TLS else "SASL_PLAINTEXT"
    add_user(target)
    _cameras(target, WARM_S)
    _new_connections(target, protocol, WARM_S)
    before_ms = _cameras(target, MEASURED_S)
    served_per_s, ack_ms = _cameras_beside(target, protocol)
    even_ms = _cameras_beside(target, protocol, EVEN_RATE[name])[1]
    return {
        name: served_per_s,
        name + ACK: ack_ms / before_ms,
        name + ACK_MS: ack_ms,
        name + ACK_EVEN: even_ms,
    }


def _cameras_beside(
    target: SecurityTarget, protocol: str, rate: float = 0
) -> tuple[float, float]:
    """Log-ins a second, `rate` at most if there is one, and the cameras' p99 in ms."""
    with ThreadPoolExecutor(1) as pool:
        cameras = pool.submit(_cameras, target, MEASURED_S)
        served_per_s = _new_connections(target, protocol, MEASURED_S - 1, rate)
        return served_per_s, cameras.result()


def _of_logins(name: str) -> tuple[str, ...]:
    return name, name + ACK, name + ACK_MS, name + ACK_EVEN


_RUNS: tuple[tuple[tuple[str, ...], Figures], ...] = (
    ((PRODUCE, PRODUCE_CPU, CONSUME, CONSUME_CPU), bytes_over_tls),
    ((HANDSHAKES,), handshakes),
    (_of_logins(LOGINS), partial(logins, LOGINS)),
    (_of_logins(LOGINS_TLS), partial(logins, LOGINS_TLS)),
)


def _measured(start: Start, names: Sequence[str], say: Say) -> dict[str, float]:
    """One broker, started once, figure by figure."""
    wanted = [run for figures, run in _RUNS if set(figures) & set(names)]
    found: dict[str, float] = {}
    if not wanted:
        return found
    with _fresh(start) as (target, folder):
        for run in wanted:
            found |= attempt(target.name, partial(run, target, folder), say) or {}
    return {name: value for name, value in found.items() if name in names}


@contextmanager
def _fresh(start: Start) -> Iterator[tuple[SecurityTarget, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as text,
        start(Path(text)) as target,
    ):
        for topic in (TOPIC, WARM_TOPIC):
            _run(target, "PLAINTEXT", "deploy.bench.load", "create", "--topic", topic)
        yield target, Path(text)


def _cameras(target: SecurityTarget, seconds: float) -> float:
    """The p99 of their acknowledgements, in ms."""
    words = ("--connections", str(PRODUCERS), "--rate", str(RATE), "--seconds", str(seconds))
    return float(_run(target, "PLAINTEXT", "deploy.bench.cameras", *words)["p99"])


def _new_connections(
    target: SecurityTarget, protocol: str, seconds: float, rate: float = 0
) -> float:
    words = ["--seconds", str(seconds), "--rate", str(rate)]
    if protocol.endswith("SSL"):
        words += ["--tls", str(target.authority)]
    if protocol.startswith("SASL"):
        words.append("--scram")
    found = _run(target, protocol, "deploy.bench.security.new_connections", *words)
    return float(found["served_per_s"])


def _run(target: SecurityTarget, protocol: str, module: str, *words: str) -> dict[str, float]:
    command = module_command(module, "--bootstrap", target.bootstrap(protocol), *words)
    return answer_of_program(command, f"{module} on {target.name}", CLIENT_TIMEOUT_S)
