"""Who a Kerberos name is, beside Apache Kafka's own rules."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.kerberos_names import LocalNameError, parse_local_names
from deploy.errors import Unavailable
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PROGRAM = """
import java.io.*;
import java.util.*;
import org.apache.kafka.common.security.kerberos.*;

public class Shortened {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\\t", -1);
            String said;
            try {
                said = KerberosShortNamer.fromUnparsedRules("HOME", Arrays.asList(w[1].split("\\1", -1)))
                    .shortName(KerberosName.parse(w[0]));
            } catch (Exception error) {
                said = "refused";
            }
            System.out.println(said);
        }
    }
}
"""
REFUSED = "refused"
PARTS = ["RULE:[1:$1]", "RULE:[1:$1@$0]", "RULE:[2:$1]", "RULE:[2:$1-$2]", "RULE:[2:$2.$1@$0]",
         "RULE:[1:App.$0]", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[:$1]", "RULE:[0:x]", "RULE:[3:$1]"]  # fmt: skip
MATCHES = ["", "", "(.*@HOME)", "(camera.*)", "([a-c]+)", "(.*)", "(App\\..*)"]
CHANGES = ["", "", "s/@.*//", "s/a/x/", "s/a/x/g", "s/(.)(.)/$2$1/g", "s/([a-z])\\1/<$1>/", "s/e/$1/",
           "s/-/\\$/", "s/.*/nobody/", "s/^/\\//"]  # fmt: skip
CASES = ["", "", "/L", "/U", "L", "/X"]
OTHERS = ["DEFAULT", "DEFAULT", "DEFAULT/L", "default", "", "RULE:x", "RULE:[1:$1]s/a/"]
FIRST = ["camera", "kafka", "aab", "Ann", "e-e", ""]


def drawn(dice: random.Random) -> tuple[str, list[str]]:
    """A name, and rules of which most are some."""
    rules = []
    for _ in range(dice.randrange(1, 5)):
        if dice.random() < 0.25:
            rules.append(dice.choice(OTHERS))
        else:
            rules.append("".join(map(dice.choice, (PARTS[:6] * 3 + PARTS, MATCHES, CHANGES, CASES))))
    name = dice.choice(FIRST) + dice.choice(["", "", "/host", "/10.0.0.1", "/a/b"])
    return name + dice.choice(["@HOME", "@HOME", "@AWAY", "", "@", "@A@B"]), rules


def ours(name: str, rules: list[str]) -> str:
    try:
        user = parse_local_names(rules, "HOME").user(name)
    except LocalNameError:
        return REFUSED
    return REFUSED if user is None else user


@pytest.mark.java
def test_rules_make_the_users_that_kafkas_own_make(tmp_path: Path, dice: random.Random) -> None:
    """Of drawn rules and names, the wrong ones included."""
    try:
        jars = kafka_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    asked = [drawn(dice) for _ in range(3000)]
    (source := tmp_path / "Shortened.java").write_text(PROGRAM)
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(jars), str(source)],
        input="".join(f"{name}\t{chr(1).join(rules)}\n" for name, rules in asked),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    both = [
        (name, rules, ours(name, rules), theirs)
        for (name, rules), theirs in zip(asked, done.stdout.splitlines(), strict=True)
    ]
    assert [one for one in both if one[2] != one[3]][:5] == []
    assert 0.05 < sum(one[3] != REFUSED for one in both) / len(both) < 0.95, "both are common"


@given(rules=st.lists(st.text(max_size=30), max_size=3), name=st.text(max_size=20))
def test_whatever_is_written_ends_in_a_short_name_or_a_refusal(rules: list[str], name: str) -> None:
    """Nothing that an access rule could take for a path or for a realm's user."""
    user = ours(name, rules)
    assert user in (REFUSED, name) or not {"/", "@"} & set(user)
