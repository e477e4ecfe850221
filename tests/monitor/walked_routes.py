"""What is planted of a rule that one unit sees, and what every route is asked about it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

RULE, ENDED, WAITING = "planted-rule-7f3a", "planted-ended-7f3a", "planted-waiting-7f3a"
PLATE, TITLE, COMMENT = "浙Q7X3K9", "planted-title-7f3a", "planted-comment-7f3a"
ALARM = f"{RULE}:planted-record-7f3a"
MARKS = ("7f3a", "7X3K9")
"""In ids, title and comment; in the plate however it is written. Nothing else of the city has them."""
CASE = "planted-case-7f3a"
REASON = {"x-reason": "planted-reason-7f3a", "x-case": CASE}
"""What north's members work on."""
RULE_BODY = {"name": TITLE, "match": {"plate_number": [PLATE]}, "reason": "stolen", "case": CASE}


@dataclass(frozen=True)
class RouteQuestion:
    """One question of a route. `finds`: who may see the rule finds something of it in the answer. `status`: what
    another unit's member is answered; None: any. `said_before`: what that member has asked himself."""

    path: str
    body: object = None
    finds: bool = False
    status: int | None = None
    said_before: str = ""


A, GONE = quote(ALARM), 404
VERDICT = {"rule_id": WAITING, "text_sha256": "0" * 64, "reason": "no"}
ask = RouteQuestion
ROUTES: dict[str, list[RouteQuestion]] = {
    "GET /login": [ask("/login")],
    "POST /auth/login": [ask("/auth/login")],
    "GET /auth/once/{token}": [ask("/auth/once/x")],
    "POST /auth/logout": [],  # ends the session of who walks
    "POST /auth/preferences": [ask("/auth/preferences")],
    "GET /api/records": [ask("/api/records"), ask(f"/api/records?plate={quote(PLATE)}")],
    "GET /api/records/count": [ask("/api/records/count")],
    "GET /api/plates": [ask("/api/plates?contains=7X3K")],
    "GET /api/records.csv": [ask("/api/records.csv")],
    "GET /api/records.jsonl": [ask("/api/records.jsonl")],
    "GET /api/records/{record_id}": [ask("/api/records/planted-record-7f3a", status=GONE)],
    "GET /api/faces": [
        ask("/api/faces?record=none", status=GONE), ask("/api/faces?list=none&entry=P7", status=GONE),
    ],
    "GET /api/rejected": [ask("/api/rejected")],
    "GET /api/latency": [ask("/api/latency")],
    "GET /api/quality": [ask("/api/quality")],
    "GET /api/quality/hour": [ask("/api/quality/hour")],
    "GET /api/alarms": [
        ask("/api/alarms", finds=True), ask(f"/api/alarms?rule={RULE}", finds=True),
        ask(f"/api/alarms?plate={quote(PLATE)}", finds=True), ask("/api/alarms?owner=li", finds=True),
        ask(f"/api/alarms?case={CASE}", finds=True), ask("/api/alarms?stage=taken", finds=True), ask("/api/alarms?districts=mine&kind=vehicle", finds=True),
    ],
    "GET /api/alarms.csv": [ask("/api/alarms.csv", finds=True)],
    "GET /api/alarms.jsonl": [ask("/api/alarms.jsonl", finds=True)],
    "GET /api/alarms/{alarm_id}": [
        ask(f"/api/alarms/{A}", finds=True, status=GONE),
        ask(f"/api/alarms/{quote(f'{ENDED}:planted-record-7f3a')}", finds=True, status=GONE),
    ],
    **{
        f"POST /api/alarms/{{alarm_id}}/{op}": [ask(f"/api/alarms/{A}/{op}", body, status=GONE)]
        for op, body in (
            ("take", {}), ("assign", {"to": "wang"}), ("confirm", {}), ("false", {"why": "misread"}),
            ("comment", {"text": "x"}), ("close", {"result": "checked"}), ("reopen", {}),
        )
    },
    "GET /api/incidents": [ask("/api/incidents")],
    "POST /api/acknowledgements/{name}": [ask(f"/api/acknowledgements/{A}", status=201)],
    "GET /api/register": [ask("/api/register")],
    "POST /api/register": [ask("/api/register", {})],
    "GET /api/places": [ask("/api/places")],
    "GET /api/watch": [ask("/api/watch", finds=True), ask("/api/watch?limit=1", finds=True)],
    "POST /api/watch": [
        ask("/api/watch", {**RULE_BODY, "name": "mine", "rule_id": RULE}, status=422),
        ask("/api/watch", {**RULE_BODY, "name": "mine", "rule_id": WAITING}, status=422),
        ask("/api/watch", {**RULE_BODY, "name": "mine", "visible_to": ["north"]}, status=422),
    ],
    "DELETE /api/watch/{rule_id}": [ask(f"/api/watch/{RULE}?reason=x", status=GONE)],
    "POST /api/watch/preview": [ask("/api/watch/preview", {"rule": {**RULE_BODY, "name": "mine"}, "from_ms": 1, "until_ms": 2})],
    "GET /api/proposals": [ask("/api/proposals", finds=True)],
    **{
        f"POST /api/proposals/{op}": [ask(f"/api/proposals/{op}", VERDICT, status=GONE)]
        for op in ("approve", "reject", "withdraw")
    },
    "GET /api/cases": [
        ask("/api/cases", finds=True), ask("/api/cases?limit=1&begins=planted", finds=True),
        ask(f"/api/cases?begins={CASE}", finds=True),
    ],
    "GET /api/cases/{case}": [ask(f"/api/cases/{CASE}", finds=True, status=GONE)],
    "GET /api/case": [ask("/api/case")],
    "POST /api/case": [ask("/api/case", {"reason": "x", "case": "K-2"})],
    "GET /api/questions": [
        ask("/api/questions", finds=True, said_before=PLATE + CASE),
        ask("/api/questions?text=7X3K9", finds=True, said_before=PLATE + CASE),
        ask(f"/api/questions?case={CASE}", finds=True, said_before=PLATE + CASE),
    ],
    "GET /api/lists": [ask("/api/lists")],
    "GET /api/lists/{list_id}/lines": [ask("/api/lists/x/lines")],
    "POST /api/lists/{list_id}/lines": [ask("/api/lists/x/lines", {})],
    "POST /api/lists/{list_id}/import": [ask("/api/lists/x/import", {})],
    "GET /api/list-proposals": [ask("/api/list-proposals")],
    **{
        f"POST /api/list-proposals/{op}": [ask(f"/api/list-proposals/{op}", {"list_id": "x"})]
        for op in ("approve", "reject", "withdraw")
    },
    "POST /api/topics": [ask("/api/topics", {"name": "x", "partitions": 0})],
    "PUT /api/topics/{name}/partitions": [ask("/api/topics/x/partitions", {"partitions": 0})],
    "DELETE /api/topics/{name}": [ask("/api/topics/x", {"typed": "y"})],
    "DELETE /api/lists/{list_id}": [ask("/api/lists/x")],
    "GET /api/evidence/alarms/{alarm_id}": [ask(f"/api/evidence/alarms/{A}", status=GONE)],
    "GET /api/evidence/records": [ask(f"/api/evidence/records?plate={quote(PLATE)}", status=GONE)],
    "GET /healthz": [ask("/healthz")],
    **{f"GET /api/{name}": [ask(f"/api/{name}")] for name in (
        "topics", "cluster", "cleaner", "metadata", "groups", "status", "mirror", "senders", "account", "accounts",
    )},
    "GET /metrics": [ask("/metrics")],
    "GET /pictures/{name}": [ask("/pictures/x")],
    "POST /api/account/password": [ask("/api/account/password", {"old": "x", "new": "y"})],
    "POST /api/accounts": [ask("/api/accounts", {})],
    "PUT /api/accounts/{name}/roles": [ask("/api/accounts/nobody/roles", {"roles": ["viewer"]})],
    "PUT /api/accounts/{name}/unit": [ask("/api/accounts/wang/unit", {"unit": "north"}, status=422)],
    "PUT /api/accounts/{name}/password": [ask("/api/accounts/nobody/password", {"password": "correct horse"})],
    "DELETE /api/accounts/{name}/lock": [ask("/api/accounts/nobody/lock")],
    "DELETE /api/accounts/{name}": [ask("/api/accounts/nobody")],
    "GET /": [ask("/")],
    "GET /assets/{name}": [ask("/assets/console.js")],
}  # fmt: skip
"""Every route of the API's document, by method and path; one without a question says why."""
