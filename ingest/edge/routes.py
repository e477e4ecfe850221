"""The edge's HTTP surface: routes, status codes, bounds. What a record is, `intake` knows.

In: HTTP requests. Out: answers, given only after the records are durable. Never: an answer before
the spool's fsync; a refusal of well-formed records below the spool's stated bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from bus.contracts import headers, topics
from bus.contracts.meters import Sent
from bus.settings import SiteSettings
from bus.tasks import HeardRequests
from ingest.edge.answers import Problem, answer, status_of, warned
from ingest.edge.body import MULTIPART, UnknownType, media_type, split
from ingest.edge.courier import Courier
from ingest.edge.intake import Arrival, Taken, take
from ingest.edge.meters import Meters
from ingest.edge.principal import Operation, Principal, authenticate, authorise
from ingest.edge.request import (
    BadEncoding,
    BadForm,
    TooLarge,
    UnknownEncoding,
    read_body,
    read_form,
)
from ingest.normalise import clock_limits
from ingest.normalise.explain import picture_faults
from ingest.normalise.foreign import maker_of_path, sentences
from ingest.pictures import PictureKeeper
from ingest.pictures.names import MAX_NAME_CHARACTERS, content_type, is_safe_name, safe
from ingest.settings import EdgeSettings
from ingest.spool import Entry, Spool, SpoolFull

CLIENT_LEFT = 499  # nginx's number; it is written nowhere, because nobody is there to read it
# Per request, so that one batch with inline pictures does not take all threads
MAX_PICTURES_AT_ONCE = 32
# Records of a request that get warnings: who sends a thousand of one kind learns no more from all
MAX_WARNED = 100
RECORDS_AT_ONCE = 200  # about 4 ms of work before the loop serves the next request
_SENT_LIST = msgspec.json.Decoder(list[Sent])
_SENT = msgspec.json.Decoder(Sent)

_Handler = Callable[["Edge", Request, Principal], Awaitable[Response]]


class Edge:
    """What the routes share."""

    def __init__(
        self,
        site: SiteSettings,
        settings: EdgeSettings,
        spool: Spool,
        courier: Courier,
        keeper: PictureKeeper,
    ) -> None:
        self.site, self.settings = site, settings
        self.spool, self.courier, self.keeper = spool, courier, keeper
        self.meters = Meters(spool, courier, keeper)
        self._tz = site.tz
        self._clock = clock_limits(site)

    async def records(self, request: Request, principal: Principal) -> Response:
        """`POST /v1/records/{kind}`."""
        body = await read_body(request, self.settings.max_body_bytes)
        kind = media_type(request.headers.get("content-type", ""))
        if kind == MULTIPART:
            form = await read_form(request, body)
            values, beside = [form.record], form.pictures
        else:
            values, beside = split(body, kind), {}
        if len(values) > self.settings.max_records_per_request:
            raise TooLarge
        arrival = self._arrival(request, principal)
        taken = await self._take(values, arrival, beside)
        await self._keep_pictures(taken)
        await self._spool(taken, arrival.kind)
        given = answer(taken, values, self.site.zone)
        return _json(given, status_of(given))

    async def counters(self, request: Request, principal: Principal) -> Response:
        """`POST /v1/counters`: what producers say they sent."""
        body = await read_body(request, self.settings.max_body_bytes)
        is_list = body.lstrip()[:1] == b"["
        try:
            counters = _SENT_LIST.decode(body) if is_list else [_SENT.decode(body)]
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return _bad_counter(str(error))
        strange = next((c.kind for c in counters if c.kind not in _KINDS), None)
        if strange is not None:
            return _bad_counter(f"kind is vehicle, face or video, not {strange!r}")
        now_ms = time.time_ns() // 1_000_000
        await self.spool.append([self._counter(c, principal, now_ms) for c in counters])
        return _json({"accepted": len(counters)}, 200)

    async def put_picture(self, request: Request, principal: Principal) -> Response:
        """`PUT /v1/pictures/{name}`: a picture before its record; the answer has its address."""
        name = request.path_params["name"]
        if not is_safe_name(name) or "/" in name:
            return _problem(
                400,
                "bad-name",
                f"{name[:80]!r} is no plain file name: at most {MAX_NAME_CHARACTERS} of a-z, A-Z,"
                " 0-9, - _ and, not at the beginning, the dot",
                f"图片名称不合法：最多 {MAX_NAME_CHARACTERS} 个字符，只能使用英文字母、数字、- _"
                " 和（不在开头的）点。",
            )
        data = await read_body(request, self.settings.max_picture_bytes)
        if not data:
            return _problem(400, "empty", "the picture has no bytes", "图片内容为空。")
        path = f"{self._day()}/put/{safe(principal.name)}/{name}"
        there = await self.keeper.read(path)
        if there is not None and there != data:
            return _problem(
                409, "exists", "another picture has this name", "同名的另一张图片已存在。"
            )
        if there is None and not await self.keeper.keep(path, data):
            return _full("the picture store is away and the waiting folder is full")
        warnings = warned(0, picture_faults(name, data, self.settings.max_picture_bytes))
        return _json({"url": self.keeper.store.url(path), "warnings": warnings}, 201)

    async def get_picture(self, request: Request, principal: Principal) -> Response:
        """`GET /pictures/…`: what the records' addresses point to."""
        name = request.path_params["name"]
        data = await self.keeper.read(name)
        if data is None:
            return _problem(404, "no-picture", "there is no such picture", "没有这张图片。")
        kept = {
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, max-age=31536000, immutable",
        }
        return Response(data, media_type=content_type(name), headers=kept)

    async def healthz(self, request: Request, principal: Principal) -> Response:
        """200 as long as records can be taken and are being carried."""
        ok = self.courier.alive
        return _json({"status": "ok" if ok else "the courier has stopped"}, 200 if ok else 503)

    async def metrics(self, request: Request, principal: Principal) -> Response:
        """Prometheus' text format; who may not read gets it without the devices' addresses."""
        text = self.meters.text(with_devices=authorise(principal, Operation.READ))
        return Response(text, media_type="text/plain; version=0.0.4")

    async def status(self, request: Request, principal: Principal) -> Response:
        """The account's numbers."""
        return _json(self.meters.status(), 200)

    async def _take(
        self, values: list[bytes], arrival: Arrival, beside: dict[str, bytes]
    ) -> list[Taken]:
        """Judge all; a large batch lets others be answered in between."""
        taken, url_of, warned = [], self.keeper.store.url, 0
        for index, value in enumerate(values):
            if index % RECORDS_AT_ONCE == RECORDS_AT_ONCE - 1:
                await asyncio.sleep(0)
            may_warn = warned < MAX_WARNED
            one = take(value, index, arrival, os.urandom(10), beside, url_of, may_warn=may_warn)
            warned += bool(one.warnings)
            taken.append(one)
        return taken

    async def _keep_pictures(self, taken: list[Taken]) -> None:
        """Pictures first, so that a record on the bus never points to what is still in our
        memory."""
        gate = asyncio.Semaphore(MAX_PICTURES_AT_ONCE)

        async def keep(name: str, data: bytes) -> None:
            async with gate:
                await self.keeper.keep(name, data)

        pictures = [(name, data) for record in taken for name, data in record.pictures.items()]
        if pictures:
            await asyncio.gather(*(keep(name, data) for name, data in pictures))

    async def _spool(self, taken: list[Taken], kind: str) -> None:
        try:
            await self.spool.append([record.entry for record in taken])
        except SpoolFull:
            self.meters.count_refused(taken, kind)
            raise
        self.meters.count_taken(taken, kind)

    def _arrival(self, request: Request, principal: Principal) -> Arrival:
        return Arrival(
            kind=request.path_params["kind"],
            sender=principal.name,
            source=principal.address,
            received_at_ms=time.time_ns() // 1_000_000,
            day=self._day(),
            site=self.site.name,
            zone=self.site.zone,
            idempotency_key=request.headers.get("idempotency-key", ""),
            replayed=request.headers.get("x-replay", "") == "1",
            max_record_bytes=self.settings.max_record_bytes,
            max_picture_bytes=self.settings.max_picture_bytes,
            clock=self._clock,
        )

    def _counter(self, counter: Sent, principal: Principal, now_ms: int) -> Entry:
        return Entry(
            topic=topics.METER_SENT,
            key=counter.producer.encode(),
            value=msgspec.json.encode(counter),
            headers=[
                (headers.SCHEMA, topics.TOPICS[topics.METER_SENT].schema.encode()),
                (headers.RECEIVED_AT, str(now_ms).encode()),
                (headers.SOURCE, principal.address.encode()),
                (headers.SITE, self.site.name.encode()),
            ],
            timestamp_ms=now_ms,
            tally="sent/accepted",
        )

    def _day(self) -> str:
        return datetime.now(self._tz).strftime("%Y%m%d")


def create_app(edge: Edge) -> FastAPI:
    """The routes; each passes `_guarded`, the one place of authentication and of errors'
    answers."""
    app = FastAPI(
        title="surveillance data bus: edge", docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,  # a POST that is sent elsewhere is followed by few clients
    )  # fmt: skip
    app.add_middleware(HeardRequests, failures=edge.meters.failures)
    for method, path, handler, operation in ROUTES:
        app.add_route(path, _guarded(edge, handler, operation), methods=[method])
    app.add_exception_handler(HTTPException, _no_such_route)
    return app


async def _no_such_route(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in the shape of every other answer."""
    assert isinstance(error, HTTPException)
    path, method = request.url.path[:200], request.method
    maker = maker_of_path(path)
    if maker:
        text, text_zh = sentences(maker)
    else:
        sending = [(m, p) for m, p, _, operation in ROUTES if operation is Operation.SEND]
        known = ", ".join(f"{m} {p}" for m, p in sending)
        text, text_zh = f"records go to: {known}", f"可用的接口：{known}"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response = _problem(
            405, "wrong-method", f"{method} is not for {path}; {text}", f"方法不允许；{text_zh}"
        )
    else:
        response = _problem(
            error.status_code,
            "no-such-path",
            f"there is no {path}; {text}",
            f"路径错误；{text_zh}",
        )
    response.headers.update(error.headers or {})
    return response


ROUTES: tuple[tuple[str, str, _Handler, Operation], ...] = (
    ("POST", "/v1/records/{kind}", Edge.records, Operation.SEND),
    ("POST", "/v1/counters", Edge.counters, Operation.SEND),
    ("PUT", "/v1/pictures/{name}", Edge.put_picture, Operation.SEND),
    ("GET", "/pictures/{name:path}", Edge.get_picture, Operation.READ),
    ("GET", "/healthz", Edge.healthz, Operation.PROBE),
    ("GET", "/metrics", Edge.metrics, Operation.PROBE),
    ("GET", "/v1/status", Edge.status, Operation.PROBE),
)
_KINDS = frozenset({"vehicle", "face", "video"})


def _guarded(
    edge: Edge, handler: _Handler, operation: Operation
) -> Callable[[Request], Awaitable[Response]]:
    senders, readers = edge.settings.tokens, edge.settings.reader_tokens

    async def guarded(request: Request) -> Response:
        address = request.client.host if request.client else ""
        principal = authenticate(request.headers, address, senders, readers)
        if not authorise(principal, operation):
            return _refused(principal, operation)
        if request.path_params.get("kind", "vehicle") not in _KINDS:
            return _problem(
                404, "unknown-kind", "records are vehicle, face or video", "未知的记录类别。"
            )
        with edge.meters.answer_seconds.time():
            return await _answered(edge, handler, request, principal)

    return guarded


async def _answered(
    edge: Edge, handler: _Handler, request: Request, principal: Principal
) -> Response:
    try:
        return await handler(edge, request, principal)
    except TooLarge:
        await _read_away(request, 2 * edge.settings.max_body_bytes)
        return _problem(413, "too-large", *_bounds(edge.settings))
    except UnknownType as error:
        text, text_zh = "send JSON or multipart", "请发送 JSON 或 multipart。"
        if error.maker:
            text, text_zh = sentences(error.maker)
        return _problem(
            415,
            "unknown-type",
            f"{error} is not understood; {text}",
            f"不支持的内容类型；{text_zh}",
        )
    except UnknownEncoding as error:
        response = _problem(
            415, "unknown-encoding", f"{error} is not unpacked; send gzip or plain",
            "不支持的压缩方式；请使用 gzip 或不压缩。",
        )  # fmt: skip
        response.headers["Accept-Encoding"] = "gzip, deflate, identity"
        return response
    except BadEncoding as error:
        return _problem(400, "bad-encoding", str(error), "压缩内容损坏或不完整。")
    except ClientDisconnect:
        edge.meters.abandoned.inc()
        return Response(status_code=CLIENT_LEFT)
    except BadForm as error:
        text_zh = f"multipart 请求格式不正确：{error.text_zh}。"
        return _problem(400, "bad-form", str(error), text_zh)
    except SpoolFull as error:
        return _full(str(error), error.retry_after_s)


def _bad_counter(why: str) -> Response:
    return _problem(422, "bad-counter", why, f"计数消息格式不正确：{why}")


def _refused(principal: Principal, operation: Operation) -> Response:
    """401 for a stranger, 403 for a known sender that wants to read or the other way round."""
    if principal.known:
        text = f"{principal.name} may not {operation.value} here"
        return _problem(403, "forbidden", text, "没有权限。")
    if operation is Operation.SEND:
        text, text_zh = "a bearer token of a known sender is needed", "需要已知发送方的令牌。"
    else:
        text = "a bearer token of [edge] reader_tokens is needed; the console shows pictures too"
        text_zh = "需要读取令牌（[edge] reader_tokens）；也可在控制台查看图片。"
    response = _problem(401, "denied", text, text_zh)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _read_away(request: Request, most: int) -> None:
    """What still comes of a body that is refused, up to `most` bytes: a connection that is closed
    over unread bytes is reset, and its sender then never sees the answer."""
    if request.headers.get("expect", "").lower() == "100-continue":
        return  # it waits with its body until it is asked for
    with contextlib.suppress(ClientDisconnect, RuntimeError):  # all of it may have been read
        async for chunk in request.stream():
            most -= len(chunk)
            if most < 0:
                return


def _bounds(settings: EdgeSettings) -> tuple[str, str]:
    body, records = settings.max_body_bytes, settings.max_records_per_request
    picture = settings.max_picture_bytes
    return (
        f"at most {body} bytes and {records} records per request, {picture} bytes per picture",
        f"每个请求最多 {body} 字节、{records} 条记录；每张图片最多 {picture} 字节。",
    )


def _full(why: str, retry_after_s: int = 5) -> Response:
    response = _problem(503, "full", f"nothing was taken: {why}", "暂时无法接收，请稍后重试。")
    response.headers["Retry-After"] = str(retry_after_s)
    return response


def _problem(status: int, error: str, message: str, message_zh: str) -> Response:
    return _json(Problem(error=error, message=message, message_zh=message_zh), status)


def _json(body: object, status: int) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
