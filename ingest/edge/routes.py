"""The edge's HTTP surface: routes, status codes, bounds. What a record is, `admission` knows.

Answers only after the spool's fsync, and refuses no well-formed record below the spool's bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from bus.client.kafka.mirrored_ends import mirrored_ends
from bus.contracts import headers, topics
from bus.contracts.meters import Sent
from bus.contracts.picture_digest import (
    REPR_DIGEST,
    WANT_REPR_DIGEST,
    digest_header,
    digest_in,
    digest_of,
)
from bus.contracts.pictures import MAX_NAME_CHARACTERS, is_safe_name
from bus.contracts.sender_faults import SENDERS_PATH, SenderFaults
from bus.domain.kinds import COMMON_KIND, KINDS
from bus.errors import BusError
from bus.runtime import wall_clock
from bus.runtime.tasks import HeardRequests
from bus.settings import SiteSettings
from ingest.edge.admission import AdmittedRecord, PostedRecord, RequestInfo, admit
from ingest.edge.arrivals import ArrivalMeter
from ingest.edge.batch_parser import UnknownType
from ingest.edge.body_forms import posted_records
from ingest.edge.body_start import BodyStart
from ingest.edge.caller import Caller, EdgePermission, authenticate, authorise
from ingest.edge.forwarder import SpoolForwarder
from ingest.edge.meters import Meters
from ingest.edge.refusal_recorder import RefusalRecorder
from ingest.edge.refusals import RefusedRequest
from ingest.edge.request import (
    BadEncoding,
    ForeignForm,
    TooLarge,
    UnknownEncoding,
    read_body,
)
from ingest.edge.responses import Problem, records_response, status_of, warning_items
from ingest.edge.sites.sent_again_file import read_sent_again
from ingest.edge.sites.site_route import HOME, SiteRoute
from ingest.normalise import clock_limits
from ingest.normalise.diagnostics import picture_faults
from ingest.normalise.foreign import maker_of, maker_of_path, sentences
from ingest.normalise.multipart import MULTIPART, BadForm
from ingest.pictures.names import is_original, safe
from ingest.pictures.store import served
from ingest.pictures.writer import PictureWriter
from ingest.settings import EdgeSettings
from ingest.spool import Spool, SpoolEntry, SpoolFull

SENDING_METHODS = frozenset({"POST", "PUT", "PATCH"})
# Not the sender's fault: it tries again, and what is full or away is told elsewhere.
_NOT_REFUSED = frozenset({HTTPStatus.SERVICE_UNAVAILABLE})
CLIENT_LEFT = 499  # nginx's number; the client has left, so it is never read
# Per request, so that one batch with inline pictures does not take all threads
MAX_PICTURES_AT_ONCE = 32
# Records of a request that get warnings: a thousand of one kind say nothing new
MAX_WARNED = 100
RECORDS_AT_ONCE = 200  # about 4 ms of work before the loop serves the next request
MAX_CLUSTER_ID = 100
MAX_SENDERS = 500  # rows of a page
ENDS_TIMEOUT_S = 25.0
_SENT_LIST = msgspec.json.Decoder(list[Sent])
_SENT = msgspec.json.Decoder(Sent)

_Handler = Callable[["Edge", Request, Caller], Awaitable[Response]]


class Edge:
    """What the routes share."""

    def __init__(
        self,
        site: SiteSettings,
        settings: EdgeSettings,
        spool: Spool,
        forwarder: SpoolForwarder,
        picture_writer: PictureWriter,
        route: SiteRoute,
        arrivals: ArrivalMeter,
    ) -> None:
        self.site, self.settings, self.route = site, settings, route
        self.spool, self.forwarder, self.picture_writer = spool, forwarder, picture_writer
        self.meters = Meters(spool, forwarder, picture_writer, route, arrivals)
        self.refusals = RefusalRecorder(spool, site.name, self.meters.registry)
        self._asking_ends = asyncio.Lock()
        self._tz = site.tz
        self._clock = clock_limits(site)

    async def records(self, request: Request, caller: Caller) -> Response:
        """`POST /v1/records/{kind}`."""
        body = await read_body(request, self.settings.max_body_bytes, _body_start(request))
        content_type = request.headers.get("content-type", "")
        posted = posted_records(body, content_type, request.path_params["kind"])
        admitted = await self.accept(posted, self._request_info(request, caller))
        response = records_response(admitted, self.site.zone)
        return _json(response, status_of(response))

    async def accept(
        self, posted: Sequence[PostedRecord], request: RequestInfo
    ) -> list[AdmittedRecord]:
        """Judge all and keep all, each valid or in the quarantine: durable when this returns,
        whatever form they came in. Raises `TooLarge`, `SpoolFull`; nothing is taken then."""
        if len(posted) > self.settings.max_records_per_request:
            raise TooLarge
        admitted = await self._admit(posted, request)
        await self._store_pictures(admitted)
        await self._spool(admitted)
        return admitted

    async def counters(self, request: Request, caller: Caller) -> Response:
        """`POST /v1/counters`: what producers say they sent."""
        body = await read_body(request, self.settings.max_body_bytes, _body_start(request))
        is_list = body.lstrip()[:1] == b"["
        try:
            counters = _SENT_LIST.decode(body) if is_list else [_SENT.decode(body)]
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return _bad_counter(str(error))
        strange = next((c.kind for c in counters if c.kind not in KINDS), None)
        if strange is not None:
            return _bad_counter(f"kind is one of {', '.join(KINDS)}, not {strange!r}")
        now_ms = wall_clock.now_ms()
        await self.spool.append([self._counter(c, caller, now_ms) for c in counters])
        return _json({"accepted": len(counters)}, 200)

    async def put_picture(self, request: Request, caller: Caller) -> Response:
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
        data = await read_body(request, self.settings.max_picture_bytes, _body_start(request))
        if not data:
            return _problem(400, "empty", "the picture has no bytes", "图片内容为空。")
        path = f"{self._day()}/put/{safe(caller.name)}/{name}"
        is_new = await self._keep_picture(path, data)
        if isinstance(is_new, Response):
            return is_new
        warnings = warning_items(0, picture_faults(name, data, self.settings.max_picture_bytes))
        return _json({"url": self.picture_writer.store.url(path), "warnings": warnings}, 201)

    async def get_picture(self, request: Request, caller: Caller) -> Response:
        """`GET /pictures/…`: what the records' addresses point to."""
        name = request.path_params["name"]
        data = await self.picture_writer.read(name)
        if data is None:
            return _problem(404, "no-picture", "there is no such picture", "没有这张图片。")
        headers = served(name, data).headers
        if WANT_REPR_DIGEST in request.headers:
            headers[REPR_DIGEST] = digest_header(await asyncio.to_thread(digest_of, data))
        return Response(data, headers=headers)

    async def copy_picture(self, request: Request, caller: Caller) -> Response:
        """`PUT /pictures/…`: the mirror brings a picture of the other site under its name there.

        201: kept; 200: it was here.
        """
        name = request.path_params["name"]
        if not is_safe_name(name) or not is_original(name):
            text = f"{name[:80]!r} is no name of a record's picture"
            return _problem(400, "bad-name", text, "图片名称不合法。")
        data = await read_body(request, self.settings.max_picture_bytes)
        said = digest_in(request.headers.get(REPR_DIGEST, ""))
        if not data or said is None or said != await asyncio.to_thread(digest_of, data):
            text = f"the bytes are not those of the header {REPR_DIGEST}"
            return _problem(400, "bad-digest", text, "图片内容与摘要不符。")
        is_new = await self._keep_picture(name, data)
        if isinstance(is_new, Response):
            return is_new
        return _json({"digest": digest_header(said)}, 201 if is_new else 200)

    async def _keep_picture(self, name: str, data: bytes) -> bool | Response:
        """Whether it is new; or why it is not kept. Never another picture in place of one that is
        here."""
        there = await self.picture_writer.read(name)
        if there is not None and there != data:
            return _problem(
                409, "exists", "another picture has this name", "同名的另一张图片已存在。"
            )
        if there is None and not await self.picture_writer.write(name, data):
            return _unavailable("the picture store is away and the waiting folder is full")
        return there is None

    async def healthz(self, request: Request, caller: Caller) -> Response:
        """200 as long as records can be taken and are being carried."""
        ok = self.forwarder.alive
        return _json({"status": "ok" if ok else "the forwarder has stopped"}, 200 if ok else 503)

    async def metrics(self, request: Request, caller: Caller) -> Response:
        """Prometheus' text format; who may not read gets it without the devices' addresses."""
        text = self.meters.text(with_devices=authorise(caller, EdgePermission.READ))
        return Response(text, media_type="text/plain; version=0.0.4")

    async def status(self, request: Request, caller: Caller) -> Response:
        """The account's numbers, and beside them what was refused; addresses for readers only."""
        groups = self.refusals.table.groups(
            wall_clock.now_ms(), with_peers=authorise(caller, EdgePermission.READ)
        )
        refused = {
            "requests": self.refusals.count,
            "kept": self.refusals.kept,
            "groups": groups,
        }
        return _json(self.meters.status() | {"refused": refused}, 200)

    async def senders(self, request: Request, caller: Caller) -> Response:
        """`GET /v1/senders`: who was refused or warned of what, the newest first."""
        now_ms = wall_clock.now_ms()
        found = SenderFaults(
            since_ms=self.refusals.since_ms,
            groups=self.refusals.table.groups(now_ms, with_peers=True),
            refused=self.refusals.table.peers(now_ms, MAX_SENDERS),
            warned=self.meters.warned.rows(MAX_SENDERS),
        )
        return _json(found, 200)

    async def mirrored_ends(self, request: Request, caller: Caller) -> Response:
        """`GET /v1/mirrored-ends?source=…`: what this site's bus holds of that cluster's records.

        One question to the brokers at a time. It is asked by edges of that site when it is lost.
        """
        source = request.query_params.get("source", "")[:MAX_CLUSTER_ID]
        bus = self.route.bus(HOME)
        try:
            async with self._asking_ends, asyncio.timeout(ENDS_TIMEOUT_S):
                found = await asyncio.to_thread(mirrored_ends, bus, source)
        except (BusError, TimeoutError) as error:
            text = f"the brokers do not answer: {error}"
            return _problem(503, "no-bus", text, "消息总线无响应。")
        return _json(found, 200)

    async def sent_again(self, request: Request, caller: Caller) -> Response:
        """`GET /v1/sent-again?former=…`: what a move away from that cluster sent to the other one.

        204: there was none.
        """
        former = request.query_params.get("former", "")[:MAX_CLUSTER_ID]
        found = await asyncio.to_thread(read_sent_again, self.route.folder, former)
        return Response(status_code=204) if found is None else _json(found, 200)

    async def _admit(
        self, posted: Sequence[PostedRecord], request: RequestInfo
    ) -> list[AdmittedRecord]:
        """Judge all; a large batch lets others be answered in between."""
        admitted, url_of, warned = [], self.picture_writer.store.url, 0
        for index, record in enumerate(posted):
            if index % RECORDS_AT_ONCE == RECORDS_AT_ONCE - 1:
                await asyncio.sleep(0)
            may_warn = warned < MAX_WARNED
            one = admit(record, index, request, os.urandom(10), url_of, may_warn=may_warn)
            warned += bool(one.warnings)
            admitted.append(one)
        return admitted

    async def _store_pictures(self, admitted: list[AdmittedRecord]) -> None:
        """Pictures first, so that a record on the bus never points to what is still in our
        memory."""
        gate = asyncio.Semaphore(MAX_PICTURES_AT_ONCE)

        async def keep(name: str, data: bytes) -> None:
            async with gate:
                await self.picture_writer.write(name, data)

        pictures = [(name, data) for record in admitted for name, data in record.pictures.items()]
        if pictures:
            await asyncio.gather(*(keep(name, data) for name, data in pictures))

    async def _spool(self, admitted: list[AdmittedRecord]) -> None:
        try:
            await self.spool.append([record.entry for record in admitted])
        except SpoolFull:
            self.meters.count_refused(admitted)
            raise
        self.meters.count_admitted(admitted)

    def _request_info(self, request: Request, caller: Caller) -> RequestInfo:
        return RequestInfo(
            sender=caller.name,
            source=caller.address,
            received_at_ms=wall_clock.now_ms(),
            day=self._day(),
            site=self.site.name,
            zone=self.site.zone,
            idempotency_key=request.headers.get("idempotency-key", ""),
            replayed=request.headers.get("x-replay", "") == "1",
            max_record_bytes=self.settings.max_record_bytes,
            max_picture_bytes=self.settings.max_picture_bytes,
            clock=self._clock,
        )

    def _counter(self, counter: Sent, caller: Caller, now_ms: int) -> SpoolEntry:
        return SpoolEntry(
            topic=topics.METER_SENT,
            key=counter.producer.encode(),
            value=msgspec.json.encode(counter),
            headers=[
                (headers.SCHEMA, topics.TOPICS[topics.METER_SENT].schema.encode()),
                (headers.RECEIVED_AT, str(now_ms).encode()),
                (headers.SOURCE, caller.address.encode()),
                (headers.SITE, self.site.name.encode()),
            ],
            timestamp_ms=now_ms,
            tally="sent/accepted",
        )

    def _day(self) -> str:
        return datetime.now(self._tz).strftime("%Y%m%d")


def create_app(edge: Edge) -> FastAPI:
    """The routes; each passes `_authorized`, the one place of authentication and of errors'
    answers."""
    app = FastAPI(
        title="surveillance data bus: edge", docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,  # a POST that is sent elsewhere is followed by few clients
    )  # fmt: skip
    app.add_middleware(HeardRequests, failures=edge.meters.failures)
    for method, path, handler, permission in ROUTES:
        app.add_route(path, _authorized(edge, handler, permission), methods=[method])
    app.add_exception_handler(HTTPException, _unrouted(edge))
    return app


def _unrouted(edge: Edge) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await _with_trace(edge, request, _no_such_route(request, error))

    return unrouted


def _no_such_route(request: Request, error: HTTPException) -> Response:
    """404 and 405 of the router, in the shape of every other answer."""
    path, method = request.url.path[:200], request.method
    maker = maker_of_path(path)
    if maker:
        text, text_zh = sentences(maker)
    else:
        sending = [(m, p) for m, p, _, permission in ROUTES if permission is EdgePermission.SEND]
        known = ", ".join(f"{m} {p}" for m, p in sending)
        text, text_zh = f"records go to: {known}", f"可用的接口：{known}"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        reason, text = "wrong-method", f"{method} is not for {path}; {text}"
        text_zh = f"方法不允许；{text_zh}"
    else:
        reason, text = "no-such-path", f"there is no {path}; {text}"
        text_zh = f"路径错误；{text_zh}"
    response = _problem(error.status_code, reason, text, text_zh, maker)
    response.headers.update(error.headers or {})
    return response


async def _with_trace(
    edge: Edge, request: Request, response: Response, *, is_mirror: bool = False
) -> Response:
    """The same answer, after its refusal has been noted and the beginning of its body kept. What
    is left of the body is read: a connection that is closed over unread bytes is reset, and its
    sender then never sees the answer."""
    if not isinstance(response, ProblemResponse) or response.status_code in _NOT_REFUSED:
        return response
    start, sends = _body_start(request), request.method in SENDING_METHODS
    await _discard_body(request, 2 * edge.settings.max_body_bytes, start)
    refusal = RefusedRequest(
        reason=response.reason,
        maker=response.maker or maker_of(start.data) or maker_of_path(request.url.path),
        peer=request.client.host if request.client else "",
        request=f"{request.method} {request.url.path}",
        could_be_record=sends and not is_mirror,
    )
    edge.refusals.note(refusal, response.text)
    if refusal.could_be_record:
        await edge.refusals.keep(refusal, start)
    return response


def _body_start(request: Request) -> BodyStart:
    """What has been read of this request's body."""
    if not hasattr(request.state, "body_start"):
        request.state.body_start = BodyStart()
    start: BodyStart = request.state.body_start
    return start


ROUTES: tuple[tuple[str, str, _Handler, EdgePermission], ...] = (
    ("POST", "/v1/records/{kind}", Edge.records, EdgePermission.SEND),
    ("POST", "/v1/counters", Edge.counters, EdgePermission.SEND),
    ("PUT", "/v1/pictures/{name}", Edge.put_picture, EdgePermission.SEND),
    ("GET", "/pictures/{name:path}", Edge.get_picture, EdgePermission.READ),
    ("PUT", "/pictures/{name:path}", Edge.copy_picture, EdgePermission.COPY),
    ("GET", "/healthz", Edge.healthz, EdgePermission.PROBE),
    ("GET", "/metrics", Edge.metrics, EdgePermission.PROBE),
    ("GET", "/v1/status", Edge.status, EdgePermission.PROBE),
    ("GET", SENDERS_PATH, Edge.senders, EdgePermission.READ),
    ("GET", "/v1/mirrored-ends", Edge.mirrored_ends, EdgePermission.PROBE),
    ("GET", "/v1/sent-again", Edge.sent_again, EdgePermission.PROBE),
)


def _authorized(
    edge: Edge, handler: _Handler, permission: EdgePermission
) -> Callable[[Request], Awaitable[Response]]:
    settings = edge.settings
    tokens = settings.tokens, settings.reader_tokens, settings.mirror_tokens

    async def authorized(request: Request) -> Response:
        address = request.client.host if request.client else ""
        caller = authenticate(request.headers, address, *tokens)
        response = await answer(request, caller)
        is_mirror = authorise(caller, EdgePermission.COPY)
        return await _with_trace(edge, request, response, is_mirror=is_mirror)

    async def answer(request: Request, caller: Caller) -> Response:
        if not authorise(caller, permission):
            return _denied(caller, permission)
        if request.path_params.get("kind", COMMON_KIND) not in KINDS:
            known = ", ".join(KINDS)
            text, text_zh = f"records are one of {known}", f"未知的记录类别；应为 {known}。"
            return _problem(404, "unknown-kind", text, text_zh)
        with edge.meters.answer_seconds.time():
            return await _handle(edge, handler, request, caller)

    return authorized


async def _handle(edge: Edge, handler: _Handler, request: Request, caller: Caller) -> Response:
    try:
        return await handler(edge, request, caller)
    except TooLarge:
        return _problem(413, "too-large", *_bounds(edge.settings))
    except UnknownType as error:
        text, text_zh = f"send JSON or {MULTIPART}", "请发送 JSON 或 multipart/form-data。"
        if error.maker:
            text, text_zh = sentences(error.maker)
        return _problem(
            415,
            "unknown-type",
            f"{error} is not understood; {text}",
            f"不支持的内容类型；{text_zh}",
            error.maker,
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
    except ForeignForm as error:
        return _problem(400, "foreign-form", *sentences(error.maker), error.maker)
    except BadForm as error:
        text_zh = f"multipart 请求格式不正确：{error.text_zh}。"
        return _problem(400, "bad-form", str(error), text_zh)
    except SpoolFull as error:
        return _unavailable(str(error), error.retry_after_s)


def _bad_counter(why: str) -> Response:
    return _problem(422, "bad-counter", why, f"计数消息格式不正确：{why}")


def _denied(caller: Caller, permission: EdgePermission) -> Response:
    """401 for a stranger, 403 for a known sender that wants to read or the other way round."""
    if caller.known:
        text = f"{caller.name} may not {permission.value} here"
        return _problem(403, "forbidden", text, "没有权限。")
    if permission is EdgePermission.SEND:
        text, text_zh = "a bearer token of a known sender is needed", "需要已知发送方的令牌。"
    elif permission is EdgePermission.COPY:
        text = "a bearer token of [edge] mirror_tokens is needed"
        text_zh = "需要镜像令牌（[edge] mirror_tokens）。"
    else:
        text = "a bearer token of [edge] reader_tokens is needed; the console shows pictures too"
        text_zh = "需要读取令牌（[edge] reader_tokens）；也可在控制台查看图片。"
    response = _problem(401, "denied", text, text_zh)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _discard_body(request: Request, most: int, start: BodyStart) -> None:
    """What still comes of a body that is refused, up to `most` bytes; `start` sees it."""
    if request.headers.get("expect", "").lower() == "100-continue":
        return  # it waits with its body until it is asked for
    with contextlib.suppress(ClientDisconnect, RuntimeError):  # all of it may have been read
        async for chunk in request.stream():
            start.feed(chunk)
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


def _unavailable(why: str, retry_after_s: int = 5) -> Response:
    response = _problem(503, "full", f"nothing was taken: {why}", "暂时无法接收，请稍后重试。")
    response.headers["Retry-After"] = str(retry_after_s)
    return response


class ProblemResponse(Response):
    """A refusal: why, and whose interface the request was meant for."""

    def __init__(self, problem: Problem, status: int, maker: str) -> None:
        super().__init__(msgspec.json.encode(problem), status, media_type="application/json")
        self.reason, self.text, self.maker = problem.error, problem.message, maker


def _problem(
    status: int, error: str, message: str, message_zh: str, maker: str = ""
) -> ProblemResponse:
    return ProblemResponse(
        Problem(error=error, message=message, message_zh=message_zh), status, maker
    )


def _json(body: object, status: int) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
