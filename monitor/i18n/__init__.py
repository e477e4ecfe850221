"""Texts of the console in Chinese and English: one table per language, the same keys in both.

Words of operators are shown as they are. Values of devices have a table of their own, `values`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass

from monitor.i18n import (
    account_texts,
    alarm_texts,
    approval_texts,
    case_texts,
    en,
    evidence_texts,
    face_texts,
    film_texts,
    list_texts,
    mirror_texts,
    place_texts,
    reading_texts,
    rule_texts,
    search_texts,
    topic_texts,
    unit_texts,
    watch_texts,
    zh,
)
from monitor.i18n.values import value_text, value_words

TABLES = (
    account_texts, alarm_texts, approval_texts, case_texts, mirror_texts, rule_texts, search_texts,
    evidence_texts, face_texts,
    watch_texts, list_texts, place_texts, reading_texts, topic_texts, unit_texts,
    film_texts,
)  # fmt: skip
"""Of pages that have many texts."""

LANGUAGES: dict[str, Mapping[str, str]] = {
    "zh": dict(ChainMap(zh.TEXTS, *(table.ZH for table in TABLES))),
    "en": dict(ChainMap(en.TEXTS, *(table.EN for table in TABLES))),
}


@dataclass(frozen=True, slots=True)
class Texts:
    """Call it with a key. An unknown key is a programmer's error and raises `KeyError`."""

    language: str
    table: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        text = self.table[key]
        return text.format(**values) if values else text

    def word(self, group: str, value: str) -> str:
        """A word for a value of ours (`severity`, `reason` …); the value itself when there is
        none.
        """
        return self.table.get(f"{group}.{value}", value)

    def value(self, attribute: str, value: str) -> str:
        """A value of a device in this language; as it came when it is not a known one."""
        return value_text(value, self.language, is_series=attribute == "vehicle_series")

    def values(self) -> dict[str, str]:
        """All known values in this language, by what a device writes."""
        return value_words(self.language)

    def group(self, group: str) -> dict[str, str]:
        """All words of a group, by value."""
        start = group + "."
        return {k[len(start) :]: v for k, v in self.table.items() if k.startswith(start)}

    @property
    def html_language(self) -> str:
        """For the `lang` attribute."""
        return "zh-CN" if self.language == "zh" else "en"

    @property
    def other(self) -> str:
        """The language the switch leads to."""
        return "en" if self.language == "zh" else "zh"


def texts(language: str) -> Texts:
    """The texts of a language; Chinese for one we do not speak."""
    language = language if language in LANGUAGES else "zh"
    return Texts(language, LANGUAGES[language])
