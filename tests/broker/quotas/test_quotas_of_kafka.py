"""Windows, token buckets and precedence, beside the quota managers of Apache Kafka 4.4 themselves."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from broker.quotas.client_quotas import ClientQuotas, QuotaKind
from broker.quotas.quota_index import NO_LIMIT
from broker.quotas.quota_rate import QuotaWindows
from bus.protocol.quota_entities import CLIENT_ID, USER
from deploy.errors import Unavailable
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PROGRAM = """
import java.io.*;
import java.net.InetAddress;
import java.util.*;
import java.util.function.Supplier;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.*;

public class Throttled {
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
        ClientQuotaManager fetch = null;
        ControllerMutationQuotaManager mutations = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\\t", -1);
            switch (w[0]) {
                case "new" -> {
                    time.now = 1000000000L;
                    if (fetch != null) { fetch.shutdown(); mutations.shutdown(); }
                    var metrics = new Metrics(new MetricConfig(), new ArrayList<>(), time);
                    var config = new ClientQuotaManagerConfig(
                            Integer.parseInt(w[1]), Integer.parseInt(w[2]));
                    fetch = new ClientQuotaManager(config, metrics, QuotaType.FETCH, time, "f");
                    mutations = new ControllerMutationQuotaManager(
                            config, metrics, time, "m", Optional.empty());
                }
                case "quota" -> {
                    Optional<ClientQuotaEntity.ConfigEntity> user = switch (w[1]) {
                        case "-" -> Optional.empty();
                        case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
                        default -> Optional.of(new ClientQuotaManager.UserEntity(w[1]));
                    };
                    Optional<ClientQuotaEntity.ConfigEntity> client = switch (w[2]) {
                        case "-" -> Optional.empty();
                        case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
                        default -> Optional.of(new ClientQuotaManager.ClientIdEntity(w[2]));
                    };
                    var limit = Optional.of(Quota.upperBound(Double.parseDouble(w[3])));
                    fetch.updateQuota(user, client, limit);
                    mutations.updateQuota(user, client, limit);
                }
                default -> {
                    time.now = 1000000000L + Long.parseLong(w[1]);
                    var session = new Session(new KafkaPrincipal("User", w[2]),
                            InetAddress.getLoopbackAddress());
                    double amount = Double.parseDouble(w[4]);
                    switch (w[0]) {
                        case "use" -> out.println(
                            fetch.recordAndGetThrottleTimeMs(session, w[3], amount, time.now));
                        case "back" -> {
                            int wait = fetch.recordAndGetThrottleTimeMs(session, w[3], amount, time.now);
                            if (wait > 0) fetch.unrecordQuotaSensor(session, w[3], amount, time.now);
                            out.println(wait);
                        }
                        case "most" -> out.println(fetch.maxValueInQuotaWindow(session, w[3]));
                        case "strict", "permissive" -> {
                            var quota = w[0].equals("strict")
                                ? mutations.newStrictQuotaFor(session, w[3])
                                : mutations.newPermissiveQuotaFor(session, w[3]);
                            boolean done = true;
                            try { quota.record(amount); }
                            catch (org.apache.kafka.common.errors.ThrottlingQuotaExceededException e) {
                                done = false;
                            }
                            out.println(quota.throttleTime() + (done ? "" : " refused"));
                        }
                    }
                }
            }
        }
        System.exit(0);
    }
}
"""
USERS, CLIENTS = ["ann", "bob", "ANONYMOUS"], ["camera", "edge", "x y"]
CASES, USES = 40, 80


def drawn_quotas(dice: random.Random) -> dict[tuple[str | None, str | None], float]:
    """By user and client id: "-" where an entity has none, None for the default."""
    users: list[str | None] = ["-", None, "ann", "bob"]
    clients: list[str | None] = ["-", None, "camera", "edge"]
    entities = [(u, c) for u in users for c in clients if (u, c) != ("-", "-")]
    drawn = dice.sample(entities, dice.randrange(1, 8))
    return {entity: dice.choice([0.5, 1.0, 50.0, 1000.0, 10_000.0]) for entity in drawn}


def quotas_of(samples: int, window_s: int, limits: dict[tuple[str | None, str | None], float]) -> ClientQuotas:
    """Those limits of every kind."""
    windows = QuotaWindows(samples, window_s * 1000)
    quotas = ClientQuotas(windows, windows, lambda wait: None, lambda kind, user, client: None)
    quotas.follow({
        tuple(
            (kind, name) for kind, name in ((CLIENT_ID, client), (USER, user)) if name != "-"
        ): {kind.value: limit for kind in QuotaKind}
        for (user, client), limit in limits.items()
    })  # fmt: skip
    return quotas


def answer(quotas: ClientQuotas, what: str, at_ms: int, user: str, client: str, amount: float) -> str:
    """What ours says, as the program prints it."""
    if what == "most":
        most = quotas.most_bytes(user, client)
        return "1.7976931348623157E308" if most == NO_LIMIT else str(float(most))
    if what in ("strict", "permissive"):
        quota = quotas.mutations(user, client, at_ms, is_strict=what == "strict")
        if quota is None:
            return "0"
        done = quota.allows(int(amount), at_ms)
        return f"{quota.wait_ms}{'' if done else ' refused'}"
    wait_ms = quotas.record(QuotaKind.FETCH, user, client, amount, at_ms)
    if what == "back" and wait_ms:
        quotas.take_back(QuotaKind.FETCH, user, client, amount, at_ms)
    return str(wait_ms)


@pytest.mark.java
def test_each_wait_is_that_of_kafkas_quota_managers(tmp_path: Path, dice: random.Random) -> None:
    """Drawn quotas of all levels; drawn uses, some close together, some after everything is over."""
    try:
        jars = kafka_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    lines, ours = [], []
    for _ in range(CASES):
        samples, window_s = dice.choice([(11, 1), (11, 1), (2, 1), (1, 1), (5, 3)])
        lines.append(f"new\t{samples}\t{window_s}")
        limits = drawn_quotas(dice)
        lines += [f"quota\t{u or '*'}\t{c or '*'}\t{limit}" for (u, c), limit in limits.items()]
        quotas = quotas_of(samples, window_s, limits)
        at_ms = 0
        for _ in range(USES):
            at_ms += dice.choice([0, 1, 7, 300, 999, 1000, 1001, 2500, 11_000, 40_000])
            what = dice.choice(["use", "use", "use", "back", "most", "strict", "permissive"])
            amount = float(dice.choice([0, 1, 5, 800, 12_345]))
            user, client = dice.choice(USERS), dice.choice(CLIENTS)
            lines.append(f"{what}\t{at_ms}\t{user}\t{client}\t{amount}")
            ours.append(answer(quotas, what, at_ms, user, client, amount))
    (source := tmp_path / "Throttled.java").write_text(PROGRAM)
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(jars), str(source)],
        input="\n".join(lines), capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    theirs = done.stdout.splitlines()
    asked = [line for line in lines if not line.startswith(("new", "quota"))]
    both = list(zip(asked, ours, theirs, strict=True))
    assert [(line, here, there) for line, here, there in both if here != there][:5] == []
    waits = [there for line, _, there in both if line.startswith(("use", "back"))]
    assert 0.1 < sum(wait != "0" for wait in waits) / len(waits) < 0.9, "both answers are common"
    assert any("refused" in there for there in theirs)
