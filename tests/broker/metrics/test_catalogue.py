"""The catalogue of metrics, the code that counts them, and the page about them are one."""

from __future__ import annotations

import re

from broker.metrics.catalogue import BY_NAME, CATALOGUE
from broker.metrics.document import page
from deploy.paths import PROJECT_ROOT

_MADE = re.compile(r'\.(?:meter|gauge|histogram)\(\s*("[\w-]+"|[A-Z_]+),\s*"([\w-]+)"')
_CONSTANT = re.compile(r'^([A-Z_]+) = ("[\w-]+")', re.MULTILINE)


def counted() -> set[tuple[str, str]]:
    """Every metric that the source makes."""
    found = set()
    for path in sorted((PROJECT_ROOT / "broker").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        constants = dict(_CONSTANT.findall(text))
        for kind, name in _MADE.findall(text):
            found.add((constants.get(kind, kind).strip('"'), name))
    return found


def test_every_metric_that_is_counted_stands_in_the_catalogue() -> None:
    assert counted() - BY_NAME.keys() == set()


def test_every_metric_of_the_catalogue_is_counted_somewhere() -> None:
    assert BY_NAME.keys() - counted() == set()


def test_no_two_metrics_have_one_name() -> None:
    names = [one.exposed_name for one in CATALOGUE]
    assert sorted(set(names)) == sorted(names)


def test_the_page_about_metrics_is_made_from_the_catalogue() -> None:
    """`python -m broker.metrics.document > docs/metrics.md` renews it."""
    assert (PROJECT_ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page()
