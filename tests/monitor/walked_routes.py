"""What is planted of a rule that one unit sees, and what every route is asked about it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

RULE, ENDED, WAITING = "planted-rule-7f3a", "planted-ended-7f3a", "planted-waiting-7f3a"
PLATE, TITLE, COMMENT = "浙Q7X3K9", "planted-title-7f3a", "planted-comment-7f3a"
ALARM = f"{RULE}:planted-record-7f3a"
MARKS = ("7f3a", "7X3K9")
"""In ids, title and comment; in the plate however it is written. Nothing else of the city has them."""
REASON = {"x-reason": "planted-reason-7f3a", "x-case": "K-1"}
"""What north's members work on."""
RULE_BODY = {"name": TITLE, "match": {"plate_number": [PLATE]}, "reason": "stolen", "case": "K-1"}


@dataclass(frozen=True)
class Asked:
    """One question of a route. `finds`: who may see the rule finds something of it in the answer. `status`: what
    another unit's member is answered; None: any. `said_before`: what that member has asked himself."""

    path: str
    body: object = None
    finds: bool = False
    status: int | None = None
    said_before: str = ""


A, GONE = quote(ALARM), 404
VERDICT = {"rule_id": WAITING, "text_sha256": "0" * 64, "reason": "no"}
ROUTES: dict[str, list[Asked]] = {
    "GET /login": [Asked("/login")],
    "POST /auth/login": [Asked("/auth/login")],
    "GET /auth/once/{token}": [Asked("/auth/once/x")],
    "POST /auth/logout": [],  # ends the session of who walks
    "POST /auth/preferences": [Asked("/auth/preferences")],
    "GET /api/records": [Asked("/api/records"), Asked(f"/api/records?plate={quote(PLATE)}")],
    "GET /api/records/count": [Asked("/api/records/count")],
    "GET /api/plates": [Asked("/api/plates?contains=7X3K")],
    "GET /api/records.csv": [Asked("/api/records.csv")],
    "GET /api/records.jsonl": [Asked("/api/records.jsonl")],
    "GET /api/records/{record_id}": [Asked("/api/records/planted-record-7f3a", status=GONE)],
    "GET /api/rejected": [Asked("/api/rejected")],
    "GET /api/latency": [Asked("/api/latency")],
    "GET /api/quality": [Asked("/api/quality")],
    "GET /api/quality/hour": [Asked("/api/quality/hour")],
    "GET /api/alarms": [
        Asked("/api/alarms", finds=True), Asked(f"/api/alarms?rule={RULE}", finds=True),
        Asked(f"/api/alarms?plate={quote(PLATE)}", finds=True), Asked("/api/alarms?owner=li", finds=True),
        Asked("/api/alarms?stage=taken", finds=True), Asked("/api/alarms?districts=mine&kind=vehicle", finds=True),
    ],
    "GET /api/alarms.csv": [Asked("/api/alarms.csv", finds=True)],
    "GET /api/alarms.jsonl": [Asked("/api/alarms.jsonl", finds=True)],
    "GET /api/alarms/{alarm_id}": [
        Asked(f"/api/alarms/{A}", finds=True, status=GONE),
        Asked(f"/api/alarms/{quote(f'{ENDED}:planted-record-7f3a')}", finds=True, status=GONE),
    ],
    **{
        f"POST /api/alarms/{{alarm_id}}/{op}": [Asked(f"/api/alarms/{A}/{op}", body, status=GONE)]
        for op, body in (
            ("take", {}), ("assign", {"to": "wang"}), ("confirm", {}), ("false", {"why": "misread"}),
            ("comment", {"text": "x"}), ("close", {"result": "checked"}), ("reopen", {}),
        )
    },
    "GET /api/incidents": [Asked("/api/incidents")],
    "POST /api/acknowledgements/{name}": [Asked(f"/api/acknowledgements/{A}", status=201)],
    "GET /api/register": [Asked("/api/register")],
    "POST /api/register": [Asked("/api/register", {})],
    "GET /api/places": [Asked("/api/places")],
    "GET /api/watch": [Asked("/api/watch", finds=True), Asked("/api/watch?limit=1", finds=True)],
    "POST /api/watch": [
        Asked("/api/watch", {**RULE_BODY, "name": "mine", "rule_id": RULE}, status=422),
        Asked("/api/watch", {**RULE_BODY, "name": "mine", "rule_id": WAITING}, status=422),
        Asked("/api/watch", {**RULE_BODY, "name": "mine", "visible_to": ["north"]}, status=422),
    ],
    "DELETE /api/watch/{rule_id}": [Asked(f"/api/watch/{RULE}?reason=x", status=GONE)],
    "POST /api/watch/preview": [Asked("/api/watch/preview", {"rule": {**RULE_BODY, "name": "mine"}, "from_ms": 1, "until_ms": 2})],
    "GET /api/proposals": [Asked("/api/proposals", finds=True)],
    **{
        f"POST /api/proposals/{op}": [Asked(f"/api/proposals/{op}", VERDICT, status=GONE)]
        for op in ("approve", "reject", "withdraw")
    },
    "GET /api/case": [Asked("/api/case")],
    "POST /api/case": [Asked("/api/case", {"reason": "x", "case": "K-2"})],
    "GET /api/questions": [
        Asked("/api/questions", finds=True, said_before=PLATE),
        Asked("/api/questions?text=7X3K9", finds=True, said_before=PLATE),
    ],
    "GET /api/lists": [Asked("/api/lists")],
    "GET /api/lists/{list_id}/lines": [Asked("/api/lists/x/lines")],
    "POST /api/lists/{list_id}/lines": [Asked("/api/lists/x/lines", {})],
    "POST /api/lists/{list_id}/import": [Asked("/api/lists/x/import", {})],
    "DELETE /api/lists/{list_id}": [Asked("/api/lists/x")],
    "GET /api/evidence/alarms/{alarm_id}": [Asked(f"/api/evidence/alarms/{A}", status=GONE)],
    "GET /api/evidence/records": [Asked(f"/api/evidence/records?plate={quote(PLATE)}", status=GONE)],
    "GET /healthz": [Asked("/healthz")],
    **{f"GET /api/{name}": [Asked(f"/api/{name}")] for name in (
        "topics", "cluster", "cleaner", "metadata", "groups", "status", "mirror", "senders", "account", "accounts",
    )},
    "GET /metrics": [Asked("/metrics")],
    "GET /pictures/{name}": [Asked("/pictures/x")],
    "POST /api/account/password": [Asked("/api/account/password", {"old": "x", "new": "y"})],
    "POST /api/accounts": [Asked("/api/accounts", {})],
    "PUT /api/accounts/{name}/roles": [Asked("/api/accounts/nobody/roles", {"roles": ["viewer"]})],
    "PUT /api/accounts/{name}/unit": [Asked("/api/accounts/wang/unit", {"unit": "north"}, status=422)],
    "PUT /api/accounts/{name}/password": [Asked("/api/accounts/nobody/password", {"password": "correct horse"})],
    "DELETE /api/accounts/{name}/lock": [Asked("/api/accounts/nobody/lock")],
    "DELETE /api/accounts/{name}": [Asked("/api/accounts/nobody")],
    "GET /": [Asked("/")],
    "GET /assets/{name}": [Asked("/assets/console.js")],
}  # fmt: skip
"""Every route of the API's document, by method and path; one without a question says why."""
