"""Pictures that come before their records, and those that the addresses in records point to."""

from __future__ import annotations

import asyncio

from fastapi import Request, Response

from bus.contracts.picture_digest import (
    REPR_DIGEST,
    WANT_REPR_DIGEST,
    digest_header,
    digest_in,
    digest_of,
)
from bus.contracts.pictures import MAX_NAME_CHARACTERS, is_safe_name
from ingest.edge.caller import Caller
from ingest.edge.edge import Edge
from ingest.edge.problems import json_response, problem, unavailable
from ingest.edge.request import body_start, read_body
from ingest.edge.responses import warning_items
from ingest.normalise.diagnostics import picture_faults
from ingest.pictures.names import is_original, safe
from ingest.pictures.store import served


async def put_picture(edge: Edge, request: Request, caller: Caller) -> Response:
    """`PUT /v1/pictures/{name}`: a picture before its record; the answer has its address."""
    name = request.path_params["name"]
    if not is_safe_name(name) or "/" in name:
        return problem(
            400,
            "bad-name",
            f"{name[:80]!r} is no plain file name: at most {MAX_NAME_CHARACTERS} of a-z, A-Z,"
            " 0-9, - _ and, not at the beginning, the dot",
            f"图片名称不合法：最多 {MAX_NAME_CHARACTERS} 个字符，只能使用英文字母、数字、- _"
            " 和（不在开头的）点。",
        )
    data = await read_body(request, edge.settings.max_picture_bytes, body_start(request))
    if not data:
        return problem(400, "empty", "the picture has no bytes", "图片内容为空。")
    path = f"{edge.day()}/put/{safe(caller.name)}/{name}"
    is_new = await _keep_picture(edge, path, data)
    if isinstance(is_new, Response):
        return is_new
    warnings = warning_items(0, picture_faults(name, data, edge.settings.max_picture_bytes))
    return json_response({"url": edge.picture_writer.store.url(path), "warnings": warnings}, 201)


async def get_picture(edge: Edge, request: Request, caller: Caller) -> Response:
    """`GET /pictures/…`: what the records' addresses point to."""
    name = request.path_params["name"]
    data = await edge.picture_writer.read(name)
    if data is None:
        return problem(404, "no-picture", "there is no such picture", "没有这张图片。")
    headers = served(name, data).headers
    if WANT_REPR_DIGEST in request.headers:
        headers[REPR_DIGEST] = digest_header(await asyncio.to_thread(digest_of, data))
    return Response(data, headers=headers)


async def copy_picture(edge: Edge, request: Request, caller: Caller) -> Response:
    """`PUT /pictures/…`: the mirror brings a picture of the other site under its name there.

    201: kept; 200: it was here.
    """
    name = request.path_params["name"]
    if not is_safe_name(name) or not is_original(name):
        text = f"{name[:80]!r} is no name of a record's picture"
        return problem(400, "bad-name", text, "图片名称不合法。")
    data = await read_body(request, edge.settings.max_picture_bytes)
    stated = digest_in(request.headers.get(REPR_DIGEST, ""))
    if not data or stated is None or stated != await asyncio.to_thread(digest_of, data):
        text = f"the bytes are not those of the header {REPR_DIGEST}"
        return problem(400, "bad-digest", text, "图片内容与摘要不符。")
    is_new = await _keep_picture(edge, name, data)
    if isinstance(is_new, Response):
        return is_new
    return json_response({"digest": digest_header(stated)}, 201 if is_new else 200)


async def _keep_picture(edge: Edge, name: str, data: bytes) -> bool | Response:
    """Whether it is new; or why it is not kept. Never another picture in place of one that is
    here."""
    there = await edge.picture_writer.read(name)
    if there is not None and there != data:
        return problem(
            409, "exists", "another picture has this name", "同名的另一张图片已存在。"
        )
    if there is None and not await edge.picture_writer.write(name, data):
        return unavailable("the picture store is away and the waiting folder is full")
    return there is None
