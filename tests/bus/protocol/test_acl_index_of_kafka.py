"""What ACLs allow, beside the authorizer of Apache Kafka 4.4 itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from bus.protocol.acl_index import AclIndex
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from deploy.errors import Unavailable
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PROGRAM = """
import java.io.*;
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

public class Allowed {
    record Request(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "L"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    static class Figures implements PluginMetrics {
        final Metrics metrics = new Metrics();
        public MetricName metricName(String n, String d, LinkedHashMap<String, String> t) {
            return metrics.metricName(n, "g", d, t);
        }
        public void addMetric(MetricName n, MetricValueProvider<?> p) { metrics.addMetric(n, null, p); }
        public void removeMetric(MetricName n) { metrics.removeMetric(n); }
        public Sensor addSensor(String n) { return metrics.sensor(n); }
        public void removeSensor(String n) { metrics.removeSensor(n); }
    }

    static KafkaPrincipal principal(String text) {
        String[] parts = text.split(":", 2);
        return new KafkaPrincipal(parts[0], parts[1]);
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        var out = new PrintStream(System.out, true, "UTF-8");
        StandardAuthorizer authorizer = null;
        var ids = new HashMap<StandardAcl, Uuid>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\\t", -1);
            switch (w[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of("super.users", w[1],
                            "allow.everyone.if.no.acl.found", w[2]));
                    authorizer.withPluginMetrics(new Figures());
                    authorizer.completeInitialLoad();
                    ids.clear();
                }
                case "add", "drop" -> {
                    var acl = new StandardAcl(ResourceType.fromCode(Byte.parseByte(w[1])), w[2],
                            PatternType.fromCode(Byte.parseByte(w[3])), w[4], w[5],
                            AclOperation.fromCode(Byte.parseByte(w[6])),
                            AclPermissionType.fromCode(Byte.parseByte(w[7])));
                    if (w[0].equals("add")) {
                        ids.put(acl, Uuid.randomUuid());
                        authorizer.addAcl(ids.get(acl), acl);
                    } else {
                        authorizer.removeAcl(ids.remove(acl));
                    }
                }
                case "may" -> {
                    var action = new Action(AclOperation.fromCode(Byte.parseByte(w[3])),
                            new ResourcePattern(ResourceType.fromCode(Byte.parseByte(w[4])), w[5],
                                    PatternType.LITERAL), 1, false, false);
                    var request = new Request(principal(w[1]), InetAddress.getByName(w[2]));
                    out.println(authorizer.authorize(request, List.of(action)).get(0));
                }
                case "any" -> out.println(authorizer.authorizeByResourceType(
                        new Request(principal(w[1]), InetAddress.getByName(w[2])),
                        AclOperation.fromCode(Byte.parseByte(w[3])),
                        ResourceType.fromCode(Byte.parseByte(w[4]))));
            }
        }
    }
}
"""
NAMES = ["a", "aa", "aab", "ab", "b", "hardcode", "data.vehicle", "data.face", "*"]
PREFIXES = ["a", "aa", "data.", "data.v", "hard", "*", "b"]
PRINCIPALS = ["User:x", "User:y", "User:*", "Group:x"]
HOSTS = ["10.0.0.1", "10.0.1.1", "192.168.7.9", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:5"]
BLOCKS = ["*", "10.0.0.0/8", "10.0.0.0/24", "0.0.0.0/0", "2001:db8::/32", "::/0", "10.0.0.1/32"]
RESOURCES = [Resource.TOPIC, Resource.GROUP, Resource.CLUSTER]
SETS, ACLS, QUESTIONS = 300, 8, 60


def drawn_acl(dice: random.Random) -> AclBinding:
    is_prefix = dice.random() < 0.4
    return AclBinding(
        dice.choice(RESOURCES), dice.choice(PREFIXES if is_prefix else NAMES),
        Pattern.PREFIXED if is_prefix else Pattern.LITERAL, dice.choice(PRINCIPALS),
        dice.choice([*HOSTS, *BLOCKS, *BLOCKS]), dice.choice(list(Operation)),
        dice.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )  # fmt: skip


@pytest.mark.java
def test_each_question_is_answered_as_by_kafkas_authorizer(
    tmp_path: Path, dice: random.Random
) -> None:
    """Drawn sets of ACLs, some of which are taken away again; drawn principals, hosts, resources."""
    try:
        jars = kafka_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    lines, ours = [], []
    for _ in range(SETS):
        super_users = dice.choice(["", "User:x", "User:y;User:z"])
        by_default = dice.random() < 0.3
        lines.append(f"new\t{super_users}\t{str(by_default).lower()}")
        index = AclIndex(
            frozenset(super_users.split(";")) - {""}, allows_without_acls=by_default
        )
        acls = list({drawn_acl(dice) for _ in range(dice.randrange(ACLS))})
        gone = [acl for acl in acls if dice.random() < 0.2]
        index.add(acls)
        index.discard(gone)
        lines += ["add\t" + "\t".join(map(_text, acl)) for acl in acls]
        lines += ["drop\t" + "\t".join(map(_text, acl)) for acl in gone]
        for _ in range(QUESTIONS):
            client = dice.choice(["User:x", "User:y", "Group:x"]), dice.choice(HOSTS)
            operation, resource = dice.choice(list(Operation)[1:]), dice.choice(RESOURCES)
            if dice.random() < 0.2:
                lines.append(f"any\t{client[0]}\t{client[1]}\t{operation:d}\t{resource:d}")
                ours.append(index.decide_for_any(*client, operation, resource))
            else:
                name = dice.choice(NAMES)
                lines.append(f"may\t{client[0]}\t{client[1]}\t{operation:d}\t{resource:d}\t{name}")
                ours.append(index.decide(*client, operation, resource, name).is_allowed)
    (source := tmp_path / "Allowed.java").write_text(PROGRAM)
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(jars), str(source)],
        input="\n".join(lines), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    theirs = [word == "ALLOWED" for word in done.stdout.split()]
    asked = [line for line in lines if line.startswith(("may", "any"))]
    both = zip(asked, ours, theirs, strict=True)
    assert [(line, here, there) for line, here, there in both if here != there][:5] == []
    assert 0.1 < sum(theirs) / len(theirs) < 0.9, "both answers are common"


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else str(value)
