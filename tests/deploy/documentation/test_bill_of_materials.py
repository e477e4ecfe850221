"""The bill of materials is that of the lock files, names every licence, and has none that binds the product."""

from __future__ import annotations

import json
from importlib import metadata

import pytest

from deploy.documentation.bill_of_materials import (
    LOCKS,
    bill,
    is_allowed,
    jars,
    licences,
    parts,
    pinned,
    text,
)
from deploy.paths import PROJECT_ROOT
from deploy.setup.jars import SPARK_CONNECTOR_POM

BILL = PROJECT_ROOT / "deploy" / "sbom.json"
PINS = [
    (name, version)
    for lock in LOCKS
    for name, version in pinned((PROJECT_ROOT / lock).read_text("utf-8"))
]


def test_the_bill_is_made_anew_whenever_a_lock_a_jar_or_a_licence_changes() -> None:
    """python -m deploy.documentation.bill_of_materials > deploy/sbom.json"""
    assert BILL.read_text("utf-8") == text()


def test_every_pinned_package_and_every_jar_is_in_it_once_and_nothing_else() -> None:
    components = json.loads(BILL.read_text("utf-8"))["components"]
    purls = [one["purl"] for one in components]
    of_locks = {f"pkg:pypi/{name}@{version}" for name, version in PINS}
    of_jars = {one for one in purls if one.startswith("pkg:maven/")}
    assert of_locks <= set(purls)
    assert set(purls) == of_locks | of_jars
    assert len(purls) == len(set(purls))
    assert len(of_jars) == SPARK_CONNECTOR_POM.read_text("utf-8").count("<dependency>")
    assert "pkg:maven/org.apache.kafka/kafka-clients@4.4.0" in of_jars


def test_everything_in_it_may_be_used_by_a_product_under_the_apache_licence() -> None:
    expressions = licences()
    refused = {
        (one.name, expressions[one.kind][one.name])
        for one in parts()
        if not is_allowed(expressions[one.kind][one.name])
    }
    assert refused == set()


@pytest.mark.parametrize(
    ("expression", "may"),
    [
        ("MIT", True), ("MPL-2.0 AND (Apache-2.0 OR MIT)", True), ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False), ("AGPL-3.0-or-later", False), ("MIT AND GPL-2.0-only", False),
        ("MIT AND (GPL-2.0-only OR AGPL-3.0-only)", False), ("GPL-3.0-or-later", False), ("", False),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", True), ("(MIT OR Apache-2.0) AND SSPL-1.0", False),
    ],
)  # fmt: skip
def test_of_licences_to_choose_from_one_is_enough_and_of_those_together_all_count(expression: str, may: bool) -> None:
    assert is_allowed(expression) == may


def test_what_a_package_says_of_its_licence_itself_is_what_is_written_down() -> None:
    """Of those that are installed here and say it as an SPDX expression."""
    written = licences()["pypi"]
    compared = 0
    for name, _ in PINS:
        try:
            own = metadata.metadata(name).get("License-Expression")
        except metadata.PackageNotFoundError:
            continue  # Kerberos' package is compiled where it is wanted
        if own:
            compared += 1
            assert written[name] == own, name
    assert compared > 30


def test_a_licence_is_written_down_for_each_part_and_for_nothing_that_is_gone() -> None:
    named = {(one.kind, one.name) for one in parts()}
    assert {(kind, name) for kind, names in licences().items() for name in names} == named
    [part, *_] = jars(SPARK_CONNECTOR_POM.read_text("utf-8"))
    with pytest.raises(KeyError):
        bill([part], {"maven": {}})


@pytest.mark.parametrize("line", ["fastapi>=1", "git+https://example.org/x", "fastapi", "fast api==1"])
def test_a_line_that_pins_nothing_is_not_passed_over(line: str) -> None:
    with pytest.raises(ValueError, match="pins no version"):
        list(pinned(line))
