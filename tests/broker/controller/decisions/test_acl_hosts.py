"""The host of a new rule, compared with the class that checks it in Apache Kafka 4.4."""

from __future__ import annotations

import random
import re
import subprocess
from ipaddress import IPv6Address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.decisions.acl_hosts import check_host
from broker.controller.decisions.decision import RefusedError
from broker.metadata.versions import CIDR_LEVEL, MAX_LEVEL
from bus.errors import ErrorCode
from deploy.errors import Unavailable
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PROGRAM = """
import java.io.*;
import org.apache.kafka.server.authorizer.internals.CidrUtils;

public class Blocks {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String text = in.readLine(); text != null; text = in.readLine()) {
            try {
                CidrUtils.validate(text);
                System.out.println("taken");
            } catch (IllegalArgumentException refusal) {
                System.out.println("refused");
            }
        }
    }
}
"""
BLOCKS = [
    "10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/0", "0.0.0.0/0", "10.0.0/8", "/8", "/",
    "10.0.0.0/-1", "10.0.0.0/08", "10.0.0.0/", "host/8", "::/0", "2001:db8::/32", "a/b", ":/1",
    "2001:db8::1/129", "2001:db8::1/128", "10.0.0.0/8/9", "1.2.3.4/+8", " 10.0.0.0/8", "::/",
    "10.0.0.0/ 8", "010.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:1:2/8", "::1/+8", "::1/-0", "256.0.0.0/8",
    "1.2.3.4/32", "10.0.0.0/255.0.0.0", "1.2.3.4/\uff13", "::1/008", "::1/0128", "1:2/3", "::1/ 8",
    "1:2:3:4:5:6:7:8/64", "1:2:3:4:5:6:7:8:9/64", "12345::/8", "2001:DB8::/32", "::1.2.3.4/96",
    "1.2.3.4/000", "0001.2.3.4/8", "1.2.3.4./8", "-1.2.3.4/8", "::-1/8", "64:ff9b::1.2.3.4/96",
    "02001:db8::/32", "1:00000fffff::/8", "000012345::/8", "::1.2.3.04/96", "::01.0002.3.4/96",
    "::0ffff:1.2.3.4/96", "::1.2.0256.4/96", "::00000/8", "0::/8", "00::0a.1.2.3/8", "::1/\uff13",
    "::1/1\u0662", "::1/\U0001d7d0",
]  # fmt: skip


def refusal(host: str, level: int = MAX_LEVEL) -> ErrorCode:
    """NONE for a host that is taken."""
    try:
        check_host(host, level)
    except RefusedError as error:
        return error.refusal.error
    return ErrorCode.NONE


@pytest.mark.parametrize("host", ["*", "10.1.2.3", "::1", "any text", "300.0.0.1"])
def test_a_host_without_a_slash_is_taken_as_it_is(host: str) -> None:
    assert refusal(host, CIDR_LEVEL - 1) is refusal(host) is ErrorCode.NONE


@given(st.ip_addresses(), st.integers(0, 128))
def test_every_block_of_addresses_is_taken_from_its_level_on(address: object, bits: int) -> None:
    host = f"{address}/{bits if isinstance(address, IPv6Address) else min(bits, 32)}"
    assert ip_network(host, strict=False)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return  # an IPv4 address written as IPv6
    assert refusal(host) is ErrorCode.NONE
    assert refusal(host, CIDR_LEVEL - 1) is ErrorCode.UNSUPPORTED_VERSION


@given(st.text(alphabet="0123456789abf.:/-+ %x\uff13", max_size=20))
def test_no_text_with_a_slash_is_taken_that_is_no_block(text: str) -> None:
    """Groups, octets and lengths with leading zeros are Kafka's exception."""
    if "/" not in text or refusal(text):
        return
    address, _, bits = text.partition("/")
    address = re.sub(r"[0-9a-f]+", lambda group: group[0].lstrip("0") or "0", address)
    assert ip_network(f"{address}/{int(bits)}", strict=False)


def test_an_empty_host_is_refused() -> None:
    assert refusal("", MAX_LEVEL) is refusal("", CIDR_LEVEL - 1) is ErrorCode.INVALID_REQUEST


@pytest.mark.java
def test_kafka_takes_the_same_blocks(tmp_path: Path, dice: random.Random) -> None:
    """Known ones, and known ones with one to four characters changed."""
    try:
        jars = kafka_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    drawn = [changed(dice.choice(BLOCKS), dice) for _ in range(20_000)]
    texts = [*BLOCKS, *(text for text in drawn if "/" in text and "%" not in text)]
    (source := tmp_path / "Blocks.java").write_text(PROGRAM)
    done = subprocess.run(
        [str(ensure_java()), "-Dstdout.encoding=UTF-8", "-cp", class_path(jars), str(source)],
        input="\n".join(texts), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    theirs = dict(zip(texts, done.stdout.split(), strict=True))
    ours = {text: "refused" if refusal(text) else "taken" for text in texts}
    assert {text for text in texts if ours[text] != theirs[text]} == set()


def changed(text: str, dice: random.Random) -> str:
    """Up to four times a character replaced, put in or left out."""
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text) + 1)
        text = (
            text[:at]
            + dice.choice(["", *"019af:.% -\uff13\u0662"])
            + text[at + dice.randrange(2) :]
        )
    return text
