"""A picture is known by its name: no host, no way out of the store, whatever a device writes."""

from __future__ import annotations

import random

import pytest

from bus.contracts.pictures import is_safe_name, name_in_address


@pytest.mark.parametrize("host", ["http://a:8650", "https://10.9.9.9", "", "http://169.254.169.254"])
def test_the_name_is_the_same_whatever_the_host(host: str):
    """Also that of a proxy, with a path and a query."""
    assert name_in_address(f"{host}/pictures/20261010/c/r-vehicle.jpg?x=1") == (
        "20261010/c/r-vehicle.jpg"
    )


@pytest.mark.parametrize(
    "address",
    ["", "http://169.254.169.254/latest", "file:///etc/passwd", "/pictures/../../etc/passwd", "http://[",
     "/pictures/%2e%2e/x", "http://x/?y=/pictures/a.jpg", "/pictures//etc/passwd", "/pictures/"],
)  # fmt: skip
def test_a_hostile_address_has_no_name(address: str):
    """And does not raise."""
    assert name_in_address(address) == ""


def test_any_text_gives_a_safe_name_or_none():
    """With pieces that attackers use."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    pieces = ["/pictures/", "..", "/", "%2f", "\\", "http://", "[", "@", "?", "#", "a", ".", "\0", "\n", "中"]
    for _ in range(5000):
        name = name_in_address("".join(dice.choices(pieces, k=dice.randrange(12))))
        assert name == "" or is_safe_name(name)
