"""Topics are created, grown and deleted by who runs the platform."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_json
from monitor.api.services import ConsoleServices

MAX_ORDER_BYTES = 16 * 1024
TOO_LARGE = f"an order has at most {MAX_ORDER_BYTES} bytes"
Operator = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.BUS_WRITE))]


class TopicCreation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`replication_factor` 0: as the brokers say; `retention_days` 0: for ever."""

    name: str
    partitions: int = 1
    replication_factor: int = 0
    cleanup: str = "delete"
    retention_days: int = 7


class PartitionOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many partitions it is to have."""

    partitions: int


class TopicDeletion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its name, written again."""

    typed: str


def topic_order_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router, changes = APIRouter(prefix="/api/topics"), services.topic_orders

    @router.post("")
    async def create(request: Request, who: Operator) -> Response:
        said = await read_json(request, TopicCreation, MAX_ORDER_BYTES, TOO_LARGE)
        await changes.create(
            who.name, said.name, partitions=said.partitions,
            replication_factor=said.replication_factor, cleanup=said.cleanup,
            retention_days=said.retention_days,
        )  # fmt: skip
        return json_response({"name": said.name}, 201)

    @router.put("/{name}/partitions")
    async def grow(request: Request, name: str, who: Operator) -> Response:
        said = await read_json(request, PartitionOrder, MAX_ORDER_BYTES, TOO_LARGE)
        await changes.grow(who.name, name, said.partitions)
        return json_response({"name": name, "partitions": said.partitions})

    @router.delete("/{name}")
    async def delete(request: Request, name: str, who: Operator) -> Response:
        said = await read_json(request, TopicDeletion, MAX_ORDER_BYTES, TOO_LARGE)
        await changes.delete(who.name, name, said.typed)
        return json_response({"name": name})

    return router
