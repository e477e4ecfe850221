"""Who a certificate's owner is, beside Java's own names and Apache Kafka's own rules."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from broker.security.distinguished_name import distinguished_name
from broker.security.principal_rules import MappingRuleError, parse_principal_rules
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

pytestmark = pytest.mark.java

PROGRAM = """
import java.io.*;
import java.util.*;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class Named {
    static String text(String hex) throws Exception {
        return new String(HexFormat.of().parseHex(hex), "UTF-8");
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split(" ", -1);
            String said;
            try {
                said = w[0].equals("name")
                    ? new X500Principal(HexFormat.of().parseHex(w[1])).getName()
                    : SslPrincipalMapper.fromRules(text(w[1])).getName(text(w[2]));
            } catch (Exception error) {
                said = "refused";
            }
            System.out.println(HexFormat.of().formatHex(said.getBytes("UTF-8")));
        }
    }
}
"""
KINDS = [NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME,
         NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS,
         NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER,
         NameOID.TITLE, ObjectIdentifier("1.2.3.4567"), ObjectIdentifier("2.999.1")]  # fmt: skip
REFUSED = "refused"
LETTERS = 'aZ09 ,+"\\<>;=#/\'\r\0é城'
RULES = ["DEFAULT", "RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "RULE:^.*CN=([^,]+).*$/$1/",
         "RULE:^cn=(.*?),ou=(.*?)$/$1/L", "RULE:^(.*)$/user-$1/U", "RULE:^CN=(.*?),(.*)$/$2$1$3/",
         "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", r"RULE:^CN=(.*?),OU=ops.*$/\$1-$1/",
         r"RULE:CN=(a|b)\,OU=(x\/y)/$2/", "RULE:(.*)/$1-$11/", "RULE:no/$1/"]  # fmt: skip
BAD_RULES = ["RULE:^CN=(.*)$", "RULE:^(.*)$/$1/X", "default", "RULE:a/b/,nonsense"]


def said(folder: Path, lines: list[str]) -> list[str]:
    """By Java."""
    source = folder / "Named.java"
    source.write_text(PROGRAM)
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(kafka_jars()), str(source)],
        input="\n".join(lines), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java cannot compile; install a JDK")
    assert done.returncode == 0, done.stderr
    return [bytes.fromhex(line).decode() for line in done.stdout.splitlines()]


def drawn_name(dice: random.Random) -> bytes:
    """In DER, of one to five relative names, some of several parts."""
    relative = []
    for _ in range(dice.randrange(1, 6)):
        parts = [
            x509.NameAttribute(
                kind, "".join(dice.choices(LETTERS, k=dice.randrange(1, 9))), _ASN1Type.UTF8String
            )
            for kind in dice.sample(KINDS, dice.choice([1, 1, 1, 2]))
        ]
        relative.append(x509.RelativeDistinguishedName(parts))
    return x509.Name(relative).public_bytes()


def test_names_are_written_as_java_writes_them(tmp_path: Path, dice: random.Random) -> None:
    """Which makes Kafka's principals."""
    names = [drawn_name(dice) for _ in range(300)]
    java = said(tmp_path, [f"name {name.hex()}" for name in names])
    for name, text in zip(names, java, strict=True):
        assert distinguished_name(name) == text, name.hex()


def test_rules_make_the_users_that_kafkas_own_make(tmp_path: Path, dice: random.Random) -> None:
    """Of drawn lists of rules and names, the wrong ones included."""
    asked: list[tuple[str, str]] = []
    for _ in range(400):
        rules = dice.sample(RULES, dice.randrange(1, 5))
        if dice.random() < 0.1:
            rules.append(dice.choice(BAD_RULES))
        text = dice.choice([",", ", ", " , "]).join(rules)
        name = ",".join(
            f"{kind}={dice.choice(['Alice', 'b', 'a', 'ops', 'x/y', 'Ünit'])}"
            for kind in dice.sample(["CN", "OU", "O"], dice.randrange(1, 4))
        )
        asked.append((text, name))
    lines = [f"rules {text.encode().hex()} {name.encode().hex()}" for text, name in asked]
    for (text, name), theirs in zip(asked, said(tmp_path, lines), strict=True):
        assert ours(text, name) == theirs, (text, name)


def ours(text: str, name: str) -> str:
    try:
        user = parse_principal_rules(text).user(name)
    except MappingRuleError:
        return REFUSED
    return REFUSED if user is None else user
