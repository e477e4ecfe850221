"""Reading the schema tables; their notation is explained in `bus/protocol/schema/README.md`.

In: text. Out: `Api` and `SchemaMessage`. Raises SchemaError with file and line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from bus.protocol.generator.model import LENGTHS, SCALARS, Api, SchemaField, SchemaMessage, Versions

SCHEMA_DIR = Path(__file__).parent.parent / "schema"
KAFKAS_APIS, PRIVATE_APIS = SCHEMA_DIR / "api", SCHEMA_DIR / "private"

_FIELD = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*) +"
    r"(?P<open>\[)?(?P<type>\w+)\]?(?P<null>\?)?(?P<null_range>[\d+-]+)?"
    r"(?: +(?P<range>[\d+-]+))?"
    r"(?: +@(?P<tag>\d+))?"
    r"(?: += *(?P<default>\S*))?$"
)
_ROOT = ""  # the name under which a message's own fields are collected


class SchemaError(Exception):
    """A table that does not follow its notation: a mistake of ours, found while generating."""


@dataclass(slots=True)
class _Open:
    """A struct whose fields are being read: where it is indented and which versions it lives in."""

    name: str
    depth: int
    versions: Versions


@dataclass(slots=True)
class _Body:
    """The fields of one message as they are collected, the message's own under the empty name."""

    versions: Versions
    structs: dict[str, list[SchemaField]] = field(default_factory=lambda: {_ROOT: []})


def read_apis(*directories: Path) -> list[Api]:
    """All APIs, sorted by key; Kafka's and ours unless directories are named."""
    apis = [
        parse_api(path.read_text("utf-8"), path.name)
        for directory in directories or (KAFKAS_APIS, PRIVATE_APIS)
        for path in directory.glob("*.txt")
    ]
    return sorted(apis, key=lambda api: api.key)


def read_logs(directory: Path = SCHEMA_DIR / "log") -> dict[str, list[SchemaMessage]]:
    """Persisted and embedded messages by the module they go into."""
    paths = sorted(directory.glob("*.txt"))
    return {path.stem: parse_messages(path.read_text("utf-8"), path.name) for path in paths}


def parse_api(text: str, source: str) -> Api:
    """One file of `schema/api`."""
    head, request, response = _sections(text, source)
    facts = dict(line.split(" ", 1) for line in head)
    key, name = facts["api"].split()
    versions = _range(facts["versions"], Versions(0, 0))
    flexible = _flexible(facts["flexible"])
    unstable = facts.get("unstable")

    def message(kind: str, lines: list[str]) -> SchemaMessage:
        title = name + kind.capitalize()
        return _message(kind, int(key), title, versions, flexible, lines, source)

    return Api(
        key=int(key),
        name=name,
        versions=versions,
        flexible_from=flexible,
        listeners=tuple(facts["listeners"].split()),
        unstable_from=None if unstable is None else int(unstable),
        request=message("request", request),
        response=message("response", response),
    )


def parse_messages(text: str, source: str) -> list[SchemaMessage]:
    """One file of `schema/log`: messages one after the other, each under its title line."""
    messages = []
    for block in re.split(r"\n(?=[a-z])", "\n" + "\n".join(_lines(text))):
        if block.strip():
            title, *lines = block.strip("\n").split("\n")
            messages.append(_titled(title, lines, source))
    return messages


def _titled(title: str, lines: list[str], source: str) -> SchemaMessage:
    match = re.fullmatch(r"(\w+)(?: (\d+))? (\w+) versions (\S+) flexible (\S+)", title)
    if match is None:
        raise SchemaError(f"{source}: no title of a message: {title!r}")
    kind, key, name, versions, flexible = match.groups()
    return _message(
        kind,
        None if key is None else int(key),
        name,
        _range(versions, Versions(0, 0)),
        _flexible(flexible),
        lines,
        source,
    )


def _sections(text: str, source: str) -> tuple[list[str], list[str], list[str]]:
    lines = _lines(text)
    try:
        request, response = lines.index("request"), lines.index("response")
    except ValueError:
        raise SchemaError(f"{source}: needs a request and a response section") from None
    return lines[:request], lines[request + 1 : response], lines[response + 1 :]


def _lines(text: str) -> list[str]:
    without_comments = (line.split("#", 1)[0].rstrip() for line in text.splitlines())
    return [line for line in without_comments if line]


def _message(
    kind: str,
    key: int | None,
    name: str,
    versions: Versions,
    flexible: int | None,
    lines: list[str],
    source: str,
) -> SchemaMessage:
    body = _Body(versions)
    stack = [_Open(_ROOT, 1, versions)]
    for line in lines:
        _line(line, body, stack, f"{source}: {line.strip()!r}")
    structs = {struct: tuple(fields) for struct, fields in body.structs.items() if struct}
    message = SchemaMessage(
        kind, key, name, versions, flexible, tuple(body.structs[_ROOT]), structs
    )
    _check_structs(message, source)
    return message


def _line(line: str, body: _Body, stack: list[_Open], where: str) -> None:
    """Take one line into the body; `stack` holds the structs that are open above it."""
    depth = (len(line) - len(line.lstrip())) // 2
    while stack[-1].depth > depth:
        stack.pop()
    if stack[-1].depth != depth:
        raise SchemaError(f"{where}: indented too far")
    if line.strip().startswith("struct "):
        shared = line.split()[1]
        body.structs.setdefault(shared, [])
        stack.append(_Open(shared, depth + 1, body.versions))
        return
    parsed = _field(line.strip(), stack[-1].versions, where)
    body.structs[stack[-1].name].append(parsed)
    if parsed.is_struct:
        body.structs.setdefault(parsed.type, [])
        stack.append(_Open(parsed.type, depth + 1, parsed.versions))


def _field(text: str, outer: Versions, where: str) -> SchemaField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise SchemaError(f"{where}: not a field")
    versions = _range(match["range"], outer)
    kind = match["type"]
    if not (kind in SCALARS or kind in LENGTHS or kind[0].isupper()):
        raise SchemaError(f"{where}: unknown type {kind}")
    return SchemaField(
        name=match["name"],
        type=kind,
        is_array=match["open"] is not None,
        versions=versions,
        nullable=_range(match["null_range"], versions) if match["null"] else None,
        tag=None if match["tag"] is None else int(match["tag"]),
        default=match["default"],
    )


def _range(text: str | None, outer: Versions) -> Versions:
    """`3-5`, `3`, `3+` (to the outer's end) or `-5` (from the outer's begin); None is the outer."""
    if text is None:
        return outer
    if text.endswith("+"):
        return Versions(int(text[:-1]), outer.last)
    first, _, last = text.rpartition("-")
    if text.startswith("-"):
        return Versions(outer.first, int(last))
    return Versions(int(first or last), int(last))


def _flexible(text: str) -> int | None:
    return None if text == "none" else int(text.rstrip("+"))


def _check_structs(message: SchemaMessage, source: str) -> None:
    for name, fields in message.structs.items():
        if not fields:
            raise SchemaError(f"{source}: {message.name}: struct {name} has no fields")
