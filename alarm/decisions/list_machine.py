"""The state machine of a list of plates, or a gallery of faces. Pure; how requests are decided on
is `machine`'s.

In: requests that name chunks of lines, or bring a few lines themselves. Out: the chunk of a change,
then the list's record; or what waits for an approval. Never: a record or a proposal that names a
chunk which is not there, is another one, or stood there so long unnamed that it may be taken away
any time.

Where the site asks for an approval, a `put` is `propose`, a `change` is `propose change`, unless
the account is the list's registered source.

| state | put | change | propose | propose change | approve | reject, withdraw | remove |
|---|---|---|---|---|---|---|---|
| absent | in force | refused | proposed | refused | refused | refused | refused |
| proposed | in force | refused | proposed | refused | in force | absent or ended | refused |
| in force | in force | in force | changing | changing | refused | refused | ended |
| changing | in force | in force | changing | changing | in force | in force | ended |
| ended | in force | refused | proposed | refused | refused | refused | refused |
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from alarm.decisions.known_lists import KnownLists
from alarm.decisions.list_approval import (
    check_list_proposal,
    check_list_settling,
    list_action_of,
    proposed_list,
    recorded_beside,
    settled_list,
)
from alarm.decisions.list_states import REFUSALS, TRANSITIONS
from alarm.decisions.machine import DecidedState, NewestDecision
from alarm.decisions.requests import (
    MAX_ID_CHARACTERS,
    CommandRequest,
    check_lengths,
    decode_request,
)
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.command_codes import CHUNK_MISSING, MANY_REMOVED
from bus.contracts.commands import ANY_VERSION
from bus.contracts.feature_models import FeatureModel
from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import ListCommand, ListRecord, base_key, change_key
from bus.contracts.topics import CONTROL_LISTS, STATE_LISTS
from bus.domain.command_error import CommandError, check_length
from bus.domain.feature_models import FeatureSettings, Models
from bus.domain.list_check import (
    MAX_CHANGED_FACES,
    MAX_CHANGED_LINES,
    MAX_CHANGES,
    MAX_FACES,
    MAX_LINES,
    MAX_LISTS,
    check_base,
    check_change,
    check_face_change,
    check_list_id,
    check_text,
    checked_model,
    removes_many,
)
from bus.domain.list_chunks import ChunkValue, chunk_value, face_chunk_value
from bus.domain.policy import NO_POLICY, PolicySettings

MAX_CHUNK_AGE_MS = 30 * 60_000
"""Of one that no list names yet. The site's recorder takes such a chunk away after an hour; it must
not do so while the chunk is being named."""

_decode = msgspec.json.Decoder(ListCommand).decode

_TEXT_FIELDS = (
    "name", "owner", "source", "legal_ground", "date", "severity", "tolerance", "alarms",
    "renewal_days", "base", "chunks", "kind",
)  # fmt: skip
_ASKER_FIELDS = ("author", "issuer", "account", "reason", "case")


class ListMachine:
    """See `DecisionMachine`."""

    requests_topic = CONTROL_LISTS
    state_topic = STATE_LISTS
    asked_topics: tuple[str, ...] = ()

    def __init__(
        self, models: Models | None = None, policy: PolicySettings = NO_POLICY
    ) -> None:
        """`models`: those of the site; without them, those that are known everywhere."""
        self._policy = policy
        self._models = FeatureSettings().table() if models is None else models

    def make_state(self) -> KnownLists:
        """See `DecisionMachine.make_state`."""
        return KnownLists()

    def decode(self, record: ConsumedRecord, topic_id: str) -> CommandRequest[ListCommand]:
        """See `decode_request`."""
        return decode_request(record, topic_id, _decode)

    def names(self, request: CommandRequest[ListCommand]) -> Iterable[str]:
        """The list; what makes lists longer is judged beside all that are in force."""
        yield f"list {request.command.list_id}"
        if request.command.op not in ("remove", "reject", "withdraw"):
            yield "lines"

    def newest(
        self, request: CommandRequest[ListCommand], state: KnownLists, now_ms: int
    ) -> NewestDecision:
        """See `DecisionMachine.newest`. Of a request that made a proposal or ended one, that."""
        list_id = request.command.list_id
        record, proposal = state.get(list_id), state.proposals.get(list_id)
        if proposal.command_id == request.command_id != record.command_id:
            return NewestDecision(
                proposal.version, proposal.command_id, "", 0, is_in_force=False,
                waits=proposal.waits is not None,
            )  # fmt: skip
        return NewestDecision(
            record.version, record.command_id, record.decided_by, record.decided_at_ms,
            is_in_force=record.op == "put",
        )  # fmt: skip

    def follow(
        self, request: CommandRequest[ListCommand], state: KnownLists, now_ms: int
    ) -> DecidedState:
        """See `DecisionMachine.follow`."""
        command = request.command
        check_lengths(request)
        check_list_id(command.list_id)
        for field in ("author", "text_sha256"):
            check_length(field, getattr(command, field), MAX_ID_CHARACTERS)
        action = list_action_of(command, self._policy)
        following = TRANSITIONS[state.state_of(command.list_id, now_ms), action]
        if isinstance(following, str):
            raise CommandError("list_id", REFUSALS[following], following)
        waiting = state.waiting_for(command.list_id, now_ms)
        if action in ("approve", "reject", "withdraw"):
            assert waiting is not None
            check_list_settling(command, waiting, self._policy)
        settled = tuple(map(recorded_beside, settled_list(request, state, now_ms)))
        if action in ("reject", "withdraw"):
            version = state.proposals.next_version(command.list_id, now_ms)
            return DecidedState(version, settled)
        version = state.versions.next_version(command.list_id, now_ms)
        asked = _asked(request, waiting, state.get(command.list_id).proposal, version, now_ms)
        if action == "remove":
            return DecidedState(version, (recorded_list(asked), *settled))
        if action in ("propose", "propose change"):
            check_list_proposal(command, state, self._policy, now_ms)
            self._put_or_changed(command, asked, state, now_ms - MAX_CHUNK_AGE_MS)
            proposal = proposed_list(request, state, now_ms)
            return DecidedState(proposal.version, (recorded_beside(proposal),), waits=True)
        if action == "approve" and waiting is not None:
            records = self._put_or_changed(waiting.text, asked, state, 0)
        else:
            records = self._put_or_changed(command, asked, state, now_ms - MAX_CHUNK_AGE_MS)
        return DecidedState(version, (*records, *settled))

    def _put_or_changed(
        self, text: ListCommand, asked: ListRecord, state: KnownLists, oldest_chunk_ms: int
    ) -> tuple[KeyedValue, ...]:
        """What a text makes of the list. Raises `CommandError`."""
        before = state.get(text.list_id)
        if text.op == "change":
            return _changed(text, before, asked, state)
        asked = msgspec.structs.replace(asked, model=checked_model(text, self._models))
        return (recorded_list(_put(text, before, asked, state, oldest_chunk_ms)),)


def _asked(
    request: CommandRequest[ListCommand], waiting: ListProposal | None, settled: int, version: int,
    now_ms: int,
) -> ListRecord:
    """Who asked and when it was decided; of a removal there is no more to say. What was approved is
    in its author's name, with who approved it and why. `settled`: the proposal that the decision
    before named; where nothing waits it stays named, since its own end may be missing."""
    command, text = request.command, request.command
    is_approval = command.op == "approve"
    if is_approval and waiting is not None:
        text = waiting.text
    asker = {name: getattr(text, name) for name in _ASKER_FIELDS}
    return ListRecord(
        list_id=command.list_id, op="remove", version=version, decided_at_ms=now_ms,
        command_id=request.command_id, proposal=settled if waiting is None else waiting.version,
        approved_by=command.account if is_approval else "",
        approval_reason=command.reason if is_approval else "", **asker,
    )  # fmt: skip


def recorded_list(record: ListRecord) -> KeyedValue:
    """As it stands on `state.lists`."""
    return KeyedValue(record.list_id.encode(), msgspec.json.encode(record))


def _put(
    command: ListCommand, before: ListRecord, asked: ListRecord, state: KnownLists,
    oldest_chunk_ms: int,
) -> ListRecord:
    """A base, or another text of the same one: its changes stay. Raises `CommandError`."""
    check_text(command)
    check_base(command)
    text = {name: getattr(command, name) for name in _TEXT_FIELDS}
    record: ListRecord = msgspec.structs.replace(asked, op="put", **text)
    _check_sameness(record, before)
    if before.op == "put" and (before.base, before.chunks) == (command.base, command.chunks):
        return msgspec.structs.replace(
            record, changes=before.changes, renewed_at_ms=before.renewed_at_ms
        )
    _check_chunks(command, state, oldest_chunk_ms)
    lines = record.base_lines
    if before.op == "put":
        if command.seen_version == ANY_VERSION:
            raise CommandError(
                "seen_version", "a new base names the version that it was compared with",
                "no_seen_version",
            )  # fmt: skip
        _check_removal(command, max(command.removed_lines, before.base_lines - lines), before)
    _check_room(record, lines, state)
    return msgspec.structs.replace(record, renewed_at_ms=asked.decided_at_ms)


def _check_sameness(record: ListRecord, before: ListRecord) -> None:
    """A base that stays is read as it was. Raises `CommandError`."""
    if before.op != "put":
        return
    if record.kind != before.kind:
        what = "a gallery of faces" if before.is_gallery else "a list of plates"
        raise CommandError("list_id", f"this is {what}; end it first, or take another id",
                           "other_kind")  # fmt: skip
    if record.base == before.base and _compared_as(record) != _compared_as(before):
        raise CommandError("model", "a gallery of another model has other features",
                           "other_model")  # fmt: skip


def _compared_as(record: ListRecord) -> FeatureModel | None:
    """Its model, whatever the threshold."""
    model = record.model
    return None if model is None else msgspec.structs.replace(model, threshold=0.0)


def _check_chunks(command: ListCommand, state: KnownLists, oldest_ms: int) -> None:
    """Raises `CommandError`."""
    for chunk in command.chunks:
        known = state.chunks.get(base_key(command.list_id, command.base, chunk.number))
        if known is None or known.sha256 != chunk.sha256 or known.written_ms < oldest_ms:
            raise CommandError(
                "chunks", f"chunk {chunk.number} does not stand on the topic as it is named, or "
                "was written too long ago: import the file again", CHUNK_MISSING,
            )  # fmt: skip


def _check_removal(command: ListCommand, removed: int, before: ListRecord) -> None:
    """Raises `CommandError`."""
    in_force = before.base_lines
    if removes_many(removed, in_force) and not command.confirms_removal:
        raise CommandError(
            "confirms_removal", f"{removed} of {in_force} lines would go: say that this is meant",
            MANY_REMOVED,
        )  # fmt: skip


def _check_room(record: ListRecord, lines: int, state: KnownLists) -> None:
    """Raises `CommandError`."""
    others = [one for key, one in state.in_force.items() if key != record.list_id]
    if len(others) >= MAX_LISTS:
        raise CommandError("list_id", f"{MAX_LISTS} lists are in force; end one", "too_many_lists")
    same = [one for one in others if one.kind == record.kind]
    total = lines + sum(one.base_lines + one.changed_lines for one in same)
    if record.is_gallery and total > MAX_FACES:
        raise CommandError(
            "chunks", f"all galleries together have at most {MAX_FACES} faces, with this {total}",
            "too_many_faces",
        )  # fmt: skip
    if total > MAX_LINES:
        raise CommandError(
            "chunks", f"all lists together have at most {MAX_LINES} lines, with this {total}",
            "too_many_lines",
        )  # fmt: skip


def _changed(
    command: ListCommand, before: ListRecord, asked: ListRecord, state: KnownLists
) -> tuple[KeyedValue, ...]:
    """The chunk of its lines, then the record that names it. Raises `CommandError`."""
    chunk = _checked_change(command, before, asked.version)
    _check_removal(command, len(command.removed_plates), before)
    changed = before.changed_lines + chunk.named.lines
    most = MAX_CHANGED_FACES if before.is_gallery else MAX_CHANGED_LINES
    if len(before.changes) >= MAX_CHANGES or changed > most:
        raise CommandError(
            "put_lines", f"{before.changed_lines} lines have changed since the list was imported: "
            "import it again", "too_many_changes",
        )  # fmt: skip
    _check_room(before, before.base_lines + changed, state)
    kept = {name: getattr(before, name) for name in (*_TEXT_FIELDS, "model", "renewed_at_ms")}
    changes = (*before.changes, chunk.named)
    record = msgspec.structs.replace(asked, op="put", changes=changes, **kept)
    key = change_key(command.list_id, before.base, asked.version).encode()
    return KeyedValue(key, chunk.value), recorded_list(record)


def _checked_change(command: ListCommand, before: ListRecord, version: int) -> ChunkValue:
    """Raises `CommandError`."""
    if before.model is None:
        if command.put_faces:
            raise CommandError("put_faces", "this is a list of plates", "other_kind")
        check_change(command.put_lines, command.removed_plates)
        return chunk_value(version, command.put_lines, command.removed_plates)
    if command.put_lines:
        raise CommandError("put_lines", "this is a gallery of faces", "other_kind")
    check_face_change(before.model, command.put_faces, command.removed_plates)
    return face_chunk_value(version, command.put_faces, command.removed_plates)
