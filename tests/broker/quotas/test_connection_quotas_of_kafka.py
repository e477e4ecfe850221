"""How long a new connection waits, beside `ConnectionQuotas` of Apache Kafka 4.4 itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from broker.quotas.connection_rates import KEY, ConnectionRates
from broker.quotas.creation_rates import CreationRates
from broker.quotas.quota_rate import QuotaWindows
from bus.protocol.quota_entities import IP
from deploy.errors import Unavailable
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PROGRAM = """
import java.io.*;
import java.lang.reflect.*;
import java.net.InetAddress;
import java.util.*;
import java.util.function.Supplier;
import kafka.network.*;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;

public class Connected {
    static class SetTime implements Time {
        long now = 0;
        public long milliseconds() { return now; }
        public long hiResClockMs() { return now; }
        public long nanoseconds() { return now * 1000000L; }
        public void sleep(long ms) { now += ms; }
        public void waitObject(Object o, Supplier<Boolean> c, long d) { throw new RuntimeException(); }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        var out = new PrintStream(System.out, true, "UTF-8");
        var time = new SetTime();
        var waits = ConnectionQuotas.class.getDeclaredMethod(
            "recordConnectionAndGetThrottleTimeMs", ListenerName.class, long.class);
        var addressed = ConnectionQuotas.class.getDeclaredMethod(
            "recordIpConnectionMaybeThrottle", ListenerName.class, InetAddress.class);
        waits.setAccessible(true);
        addressed.setAccessible(true);
        ConnectionQuotas quotas = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\\t", -1);
            switch (w[0]) {
                case "new" -> {
                    time.now = 1000000000L;
                    if (quotas != null) quotas.close();
                    var settings = new HashMap<String, String>();
                    for (int i = 1; i < w.length; i++) {
                        int at = w[i].indexOf('=');
                        settings.put(w[i].substring(0, at), w[i].substring(at + 1));
                    }
                    var config = new KafkaConfig(settings);
                    quotas = new ConnectionQuotas(config, time,
                        new Metrics(new MetricConfig(), new ArrayList<>(), time));
                    for (String one : settings.get("listeners").split(","))
                        quotas.addListener(config, new ListenerName(one.substring(0, one.indexOf(':'))));
                }
                case "all" -> quotas.updateBrokerMaxConnectionRate(Integer.parseInt(w[1]));
                case "one" -> quotas.maxConnectionsPerListener().apply(new ListenerName(w[1]))
                    .reconfigure(Map.of("max.connection.creation.rate", w[2]));
                case "ip" -> quotas.updateIpConnectionRateQuota(
                    w[1].equals("*") ? scala.Option.empty() : scala.Option.apply(InetAddress.getByName(w[1])),
                    scala.Option.apply((Object) Integer.parseInt(w[2])));
                case "connect" -> {
                    time.now = 1000000000L + Long.parseLong(w[1]);
                    out.println(waits.invoke(quotas, new ListenerName(w[2]), time.now));
                }
                case "address" -> {
                    time.now = 1000000000L + Long.parseLong(w[1]);
                    try {
                        addressed.invoke(quotas, new ListenerName(w[2]), InetAddress.getByName(w[3]));
                        out.println(0);
                    } catch (InvocationTargetException e) {
                        out.println(((org.apache.kafka.network.ConnectionThrottledException) e.getCause()).throttleTimeMs);
                    }
                }
            }
        }
        System.exit(0);
    }
}
"""
KEY_OF_ALL = "max.connection.creation.rate"
BOUNDS = [0, 1, 2, 5, 20, 1000]
"""Connections a second; 0 can stand in a file only."""
UNBOUNDED = (1 << 31) - 1
ADDRESSES = ["10.0.0.1", "10.0.0.2", "2001:db8::1"]
CASES, CONNECTIONS = 40, 120


class BothSides:
    """What is asked of Kafka, and what ours answers."""

    def __init__(self, dice: random.Random) -> None:
        self.lines: list[str] = []
        self.ours: list[str] = []
        self._dice = dice

    def play(self) -> None:
        """One broker: its listeners with and without bounds of their own, and changes of them."""
        dice = self._dice
        names = ["CLIENTS", "BROKERS", "OTHERS"][: dice.randrange(1, 4)]
        among = dice.choice(names)
        samples, window_s = dice.choice([(11, 1), (11, 1), (2, 1), (5, 3)])
        windows = QuotaWindows(samples, window_s * 1000)
        together = dice.choice([UNBOUNDED, *BOUNDS])
        own = {name: dice.choice(BOUNDS) for name in names if dice.random() < 0.5}
        settings = {
            "node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9", "log.dirs": "/nowhere",
            "listeners": ",".join(f"{name}://localhost:{at}" for at, name in enumerate(names, 1)),
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in [*names, "CONTROLLER"]),
            "inter.broker.listener.name": among,
            "quota.window.num": str(samples), "quota.window.size.seconds": str(window_s),
            KEY_OF_ALL: str(together),
            **{f"listener.name.{name.lower()}.{KEY_OF_ALL}": str(rate) for name, rate in own.items()},
        }  # fmt: skip
        self.lines.append("\t".join(["new", *(f"{key}={value}" for key, value in settings.items())]))
        rates = CreationRates(windows, [among] if len(names) > 1 else [])
        bounds = {name: float(own.get(name, together)) for name in names}
        rates.limit(together, bounds)
        addresses = ConnectionRates(windows, lambda: None)
        quotas = {((IP, ip),): {KEY: float(dice.choice([1, 1, 2]))} for ip in [*ADDRESSES[1:], None]}
        addresses.follow(quotas)
        for ((_, ip),), values in quotas.items():
            self.lines.append(f"ip\t{ip or '*'}\t{int(values[KEY])}")
        at_ms = 0
        for _ in range(CONNECTIONS):
            at_ms += dice.choice([0] * 8 + [1, 7, 50, 300, 999, 1000, 1001, 2500, 11_000])
            what, name = dice.choice(["connect"] * 4 + ["address"] * 3 + ["change"]), dice.choice(names)
            if what == "change":
                rate = dice.choice(BOUNDS[1:])
                if dice.random() < 0.5:
                    together = rate
                    self.lines.append(f"all\t{rate}")
                else:
                    bounds = bounds | {name: float(rate)}
                    self.lines.append(f"one\t{name}\t{rate}")
                rates.limit(together, bounds)
            elif what == "connect":
                self.lines.append(f"connect\t{at_ms}\t{name}")
                self.ours.append(str(rates.wait_ms(name, at_ms)))
            else:
                ip = dice.choice(ADDRESSES)
                self.lines.append(f"address\t{at_ms}\t{name}\t{ip}")
                wait_ms = addresses.wait_ms(ip, at_ms)
                if wait_ms:
                    rates.take_back(name, at_ms)
                self.ours.append(str(wait_ms))


@pytest.mark.java
def test_each_connection_waits_as_long_as_kafkas_connection_quotas_say(
    tmp_path: Path, dice: random.Random
) -> None:
    """By listener, broker and address; with bounds that change, and an inter-broker listener."""
    try:
        jars = kafka_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    both = BothSides(dice)
    for _ in range(CASES):
        both.play()
    (source := tmp_path / "Connected.java").write_text(PROGRAM)
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(jars), str(source)],
        input="\n".join(both.lines), capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = [line for line in both.lines if line.startswith(("connect", "address"))]
    answers = list(zip(asked, both.ours, done.stdout.splitlines(), strict=True))
    assert [(line, here, there) for line, here, there in answers if here != there][:5] == []
    for kind in ("connect", "address"):
        waits = [there for line, _, there in answers if line.startswith(kind)]
        assert 0.02 < sum(wait != "0" for wait in waits) / len(waits) < 0.98, "both are common"
