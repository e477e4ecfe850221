"""The edge's answers that are no records: JSON, and every refusal in one shape, two languages.

In: what is wrong. Out: responses. Never: a route, the state of the edge.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from fastapi import Request, Response
from starlette.exceptions import HTTPException

from bus.security.page_token import REFUSED, REFUSED_ZH, SCHEME
from ingest.edge.batch_parser import UnknownType
from ingest.edge.caller import Caller, EdgePermission
from ingest.edge.request import BadEncoding, ForeignForm, TooLarge, UnknownEncoding
from ingest.edge.responses import Problem
from ingest.normalise.foreign import maker_of_path, sentences
from ingest.normalise.multipart import MULTIPART, BadForm
from ingest.settings import EdgeSettings
from ingest.spool import SpoolFull

REFUSED_AS_A_WHOLE = (
    TooLarge, UnknownType, UnknownEncoding, BadEncoding, ForeignForm, BadForm, SpoolFull
)  # fmt: skip
"""What a handler raises where a request as a whole is refused; `refusal` answers each."""


class ProblemResponse(Response):
    """A refusal: why, and whose interface the request was meant for."""

    def __init__(self, problem: Problem, status: int, maker: str) -> None:
        super().__init__(msgspec.json.encode(problem), status, media_type="application/json")
        self.reason, self.text, self.maker = problem.error, problem.message, maker


def problem(
    status: int, error: str, message: str, message_zh: str, maker: str = ""
) -> ProblemResponse:
    return ProblemResponse(
        Problem(error=error, message=message, message_zh=message_zh), status, maker
    )


def unavailable(why: str, retry_after_s: int = 5) -> Response:
    response = problem(503, "full", f"nothing was taken: {why}", "暂时无法接收，请稍后重试。")
    response.headers["Retry-After"] = str(retry_after_s)
    return response


def bad_counter(why: str) -> Response:
    return problem(422, "bad-counter", why, f"计数消息格式不正确：{why}")


def denied(caller: Caller, permission: EdgePermission) -> Response:
    """401 for a stranger, 403 for a known sender that wants to read or the other way round."""
    if caller.known:
        text = f"{caller.name} may not {permission.value} here"
        return problem(403, "forbidden", text, "没有权限。")
    if permission is EdgePermission.SEND:
        text, text_zh = "a bearer token of a known sender is needed", "需要已知发送方的令牌。"
    elif permission is EdgePermission.COPY:
        text = "a bearer token of [edge] mirror_tokens is needed"
        text_zh = "需要镜像令牌（[edge] mirror_tokens）。"
    elif permission is EdgePermission.PAGE:
        text, text_zh = f"{REFUSED}, or of [edge] reader_tokens", REFUSED_ZH
    else:
        text = "a bearer token of [edge] reader_tokens is needed; the console shows pictures too"
        text_zh = "需要读取令牌（[edge] reader_tokens）；也可在控制台查看图片。"
    response = problem(401, "denied", text, text_zh)
    response.headers["WWW-Authenticate"] = SCHEME
    return response


def refusal(error: Exception, settings: EdgeSettings) -> Response:
    """The answer to one of `REFUSED_AS_A_WHOLE`."""
    match error:
        case TooLarge():
            return problem(413, "too-large", *_bounds(settings))
        case UnknownType():
            return _unknown_type(error)
        case UnknownEncoding():
            response = problem(
                415, "unknown-encoding", f"{error} is not unpacked; send gzip or plain",
                "不支持的压缩方式；请使用 gzip 或不压缩。",
            )  # fmt: skip
            response.headers["Accept-Encoding"] = "gzip, deflate, identity"
            return response
        case BadEncoding():
            return problem(400, "bad-encoding", str(error), "压缩内容损坏或不完整。")
        case ForeignForm():
            return problem(400, "foreign-form", *sentences(error.maker), error.maker)
        case BadForm():
            text_zh = f"multipart 请求格式不正确：{error.text_zh}。"
            return problem(400, "bad-form", str(error), text_zh)
        case SpoolFull():
            return unavailable(str(error), error.retry_after_s)
    raise error


def _unknown_type(error: UnknownType) -> ProblemResponse:
    text, text_zh = f"send JSON or {MULTIPART}", "请发送 JSON 或 multipart/form-data。"
    if error.maker:
        text, text_zh = sentences(error.maker)
    return problem(
        415,
        "unknown-type",
        f"{error} is not understood; {text}",
        f"不支持的内容类型；{text_zh}",
        error.maker,
    )


def _bounds(settings: EdgeSettings) -> tuple[str, str]:
    body, records = settings.max_body_bytes, settings.max_records_per_request
    picture = settings.max_picture_bytes
    return (
        f"at most {body} bytes and {records} records per request, {picture} bytes per picture",
        f"每个请求最多 {body} 字节、{records} 条记录；每张图片最多 {picture} 字节。",
    )


def no_such_route(request: Request, error: HTTPException, sending: str) -> Response:
    """404 and 405 of the router, in the shape of every other answer. `sending` says where records
    go."""
    path, method = request.url.path[:200], request.method
    maker = maker_of_path(path)
    if maker:
        text, text_zh = sentences(maker)
    else:
        text, text_zh = f"records go to: {sending}", f"可用的接口：{sending}"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        reason, text = "wrong-method", f"{method} is not for {path}; {text}"
        text_zh = f"方法不允许；{text_zh}"
    else:
        reason, text = "no-such-path", f"there is no {path}; {text}"
        text_zh = f"路径错误；{text_zh}"
    response = problem(error.status_code, reason, text, text_zh, maker)
    response.headers.update(error.headers or {})
    return response


def json_response(body: object, status: int) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
