"""What a handler can reach, read from the source: the functions that its `handle` names, and those
that they name, through every module of `broker.handlers`.

A name that is mentioned counts as reached, so that nothing is missed that is passed on instead of
called. The attributes that are looked for have names of their own, so that no other variable hides
them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import broker.handlers
from broker.handlers.services import PLANES, Plane
from broker.security.resource_operations import ResourceOperation
from bus.protocol.acls import Operation, Resource

FOLDER = Path(broker.handlers.__file__).parent
PACKAGE = "broker.handlers"
PLANE_OF = {name: plane for plane, names in PLANES.items() for name in names}

Reached = tuple[str, str]
"""Module and name."""


class HandlerModule:
    """One file: its definitions, and what it imports from the others."""

    def __init__(self, tree: ast.Module) -> None:
        self.own: dict[str, ast.AST] = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        self.own |= {
            target.id: node
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self.imported: dict[str, Reached] = {
            alias.asname or alias.name: (node.module.removeprefix(f"{PACKAGE}."), alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}.")
            for alias in node.names
            if node.module is not None
        }


@cache
def modules() -> dict[str, HandlerModule]:
    return {
        path.stem: HandlerModule(ast.parse(path.read_text())) for path in FOLDER.glob("*.py")
    }


CONTEXT = ("context", "services", "connection_control", "registry", "dispatch")
"""What hands a handler its context is not the handler's."""


def reachable(module: str, name: str = "handle") -> set[Reached]:
    """Everything of `broker.handlers` that a function may use."""
    found: set[Reached] = set()
    left = [(module, name)]
    while left:
        where = left.pop()
        here = modules().get(where[0])
        if here is None or where in found or where[0] in CONTEXT:
            continue
        if where[1] not in here.own:
            left += [here.imported[where[1]]] if where[1] in here.imported else []
            continue
        found.add(where)
        for node in ast.walk(here.own[where[1]]):
            if isinstance(node, ast.Name) and (node.id in here.own or node.id in here.imported):
                left.append((where[0], node.id))
    return found


def nodes(module: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node that a handler reaches, with its module."""
    for where, name in sorted(reachable(module)):
        for node in ast.walk(modules()[where].own[name]):
            yield where, node


ASKS = ("is_authorized", "is_authorized_for_any")


def asks(module: str) -> set[ResourceOperation]:
    """What a handler asks the authorizer for. Each call names operation and resource itself, so that
    nothing but the source has to be read."""
    found = set()
    for where, node in nodes(module):
        if not (isinstance(node, ast.Attribute) and node.attr in ASKS):
            continue
        call = calls_of(where)[node.lineno, node.col_offset]
        operation, resource = call.args[:2]
        assert isinstance(operation, ast.Attribute), f"{where}:{node.lineno} hides its operation"
        assert isinstance(resource, ast.Attribute), f"{where}:{node.lineno} hides its resource"
        found.add(ResourceOperation(Operation[operation.attr], Resource[resource.attr]))
    return found


@cache
def calls_of(module: str) -> dict[tuple[int, int], ast.Call]:
    """The calls of attributes in a file, by the place of the attribute: a method that is only
    mentioned, to be called elsewhere, is not among them."""
    return {
        (node.func.lineno, node.func.col_offset): node
        for definition in modules()[module].own.values()
        for node in ast.walk(definition)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def planes(module: str) -> Plane:
    """The planes that a handler uses."""
    found = Plane(0)
    for _, node in nodes(module):
        if isinstance(node, ast.Attribute):
            found |= PLANE_OF.get(node.attr, Plane(0))
    return found
