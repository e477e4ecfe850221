"""The last word: whether a candidate is an alarm, given the rules in force.

In: a candidate, its rule. Out: an `Alarm` or None. Never: I/O, a clock (`now_ms` comes in), the
once-only check (that is the dispatcher's, by `alarm_id`).
"""

from __future__ import annotations

import msgspec

from alarm.rules.explain import listed_plate, resembled_face, true_branch
from alarm.rules.matcher import Rule
from alarm.rules.meant_plate import meant_plate
from alarm.rules.references import References
from alarm.rules.ruleset import RuleSet
from bus.contracts.alarms import (
    MAX_RECORD_CHARACTERS,
    Alarm,
    Candidate,
    FaceProof,
    ListedFace,
    ListedPlate,
)
from bus.contracts.plate_lists import LIST_RULE
from bus.domain.confusion_table import ConfusionTable
from bus.domain.list_in_force import is_overdue
from bus.domain.plates import is_doubtful
from bus.domain.rule_values import FEATURE, PLATE, attributes_of
from bus.domain.targets import target_of_reading

MAX_BRANCH_CHARACTERS = 500  # a message must stay below a mebibyte; people read the beginning
_PICTURES = ("人脸图片地址", "车辆图片地址", "场景图片地址", "车牌图片地址")


def verdict(rules: RuleSet, candidate: Candidate, now_ms: int) -> Alarm | None:
    """An alarm if the rule, as it now stands, is in force and the record meets all of it."""
    rule = rules.rules.get(candidate.rule_id)
    if rule is None:
        return None
    message = msgspec.json.decode(candidate.record, type=dict[str, object])
    attributes = attributes_of(candidate.kind, message)
    arrived = (candidate.received_at_ms,) if candidate.received_at_ms > 0 else ()
    times_ms = (candidate.captured_at_ms, *arrived)
    where, references = rule.command.where, rules.references
    for proof in candidate.faces:
        if (gallery := references.galleries.get(proof.list_id)) is not None:
            gallery.assume(proof, attributes)
    if not rule.matches(candidate.kind, attributes, times_ms):
        return None
    listed = _listed(rule, attributes, references, now_ms)
    face = _face(rule, attributes, references, now_ms)
    alarm = _alarm(rule, candidate, message, attributes, listed, face, references.confusion, now_ms)
    branch = "" if where is None else true_branch(where, attributes, times_ms, references)
    return msgspec.structs.replace(
        alarm,
        district_id=references.places.district_of(alarm.checkpoint_id, alarm.camera_ip),
        branch=branch[:MAX_BRANCH_CHARACTERS],
    )


def _listed(
    rule: Rule, attributes: dict[str, str], references: References, now_ms: int
) -> ListedPlate | None:
    if rule.command.where is None or not rule.refers_to:
        return None
    found = listed_plate(rule.command.where, attributes, references)
    if found is None:
        return None
    plate_list, (line, read, weight) = found
    record = plate_list.record
    return ListedPlate(
        list_id=record.list_id, name=record.name, version=record.version, list_date=record.date,
        line=line.number, plate=line.plate, note=line.note, date=line.date,
        is_overdue=is_overdue(record, now_ms), candidate=read if weight else "", weight=weight,
    )  # fmt: skip


def matched_faces(
    rule: Rule, attributes: dict[str, str], references: References
) -> tuple[FaceProof, ...]:
    """What whoever has found that a record meets a rule knows of the galleries that it asks for."""
    found = []
    for reference in sorted(rule.refers_to):
        gallery = references.galleries.get(reference.id) if reference.what == "list" else None
        if gallery is not None and (match := gallery.find(attributes)) is not None:
            found.append(FaceProof(
                list_id=gallery.list_id, version=gallery.record.version, entry=match.line.entry,
                score=match.score,
            ))  # fmt: skip
    return tuple(found)


def _face(
    rule: Rule, attributes: dict[str, str], references: References, now_ms: int
) -> ListedFace | None:
    if rule.command.where is None or not rule.refers_to:
        return None
    found = resembled_face(rule.command.where, attributes, references)
    if found is None:
        return None
    record, model, line = found.gallery.record, found.gallery.model, found.match.line
    return ListedFace(
        list_id=record.list_id, name=record.name, version=record.version, entry=line.entry,
        score=found.match.score, threshold=found.threshold, model=model.name,
        measure=model.measure, line=line.number, list_date=record.date, note=line.note,
        date=line.date, is_overdue=is_overdue(record, now_ms),
    )  # fmt: skip


def _alarm(
    rule: Rule,
    candidate: Candidate,
    message: dict[str, object],
    attributes: dict[str, str],
    listed: ListedPlate | None,
    face: ListedFace | None,
    confusion: ConfusionTable,
    now_ms: int,
) -> Alarm:
    asked = rule.condition.attributes
    meant = meant_plate(rule.command, attributes, confusion)
    on_list = listed.plate if listed is not None else ""
    return Alarm(
        alarm_id=f"{candidate.rule_id}:{candidate.record_id}",
        rule_id=candidate.rule_id,
        rule_name=rule.command.name,
        severity=rule.command.severity,
        record_id=candidate.record_id,
        kind=candidate.kind,
        checkpoint_id=_text(message, "卡口编号"),
        captured_at_ms=candidate.captured_at_ms,
        received_at_ms=candidate.received_at_ms,
        raised_at_ms=now_ms,
        plate_number=_text(message, "车牌号码"),
        plate_is_doubtful=is_doubtful(attributes.get(PLATE, "")) and PLATE in asked,
        is_emergency=rule.command.emergency_hours > 0,
        camera_ip=_text(message, "抓拍设备地址"),
        picture_url=next(filter(None, (_text(message, key) for key in _PICTURES)), ""),
        attributes={
            name: attributes[name] for name in asked if name in attributes and name != FEATURE
        },
        target=meant.plate or on_list or _target_of_face(face)
        or target_of_reading(attributes.get(PLATE, "")),
        listed=listed,
        resembled=face,
        visible_to=rule.command.visible_to,
        case=rule.command.case.strip(),
        case_target=rule.command.target,
        misread=meant.misread,
        record=candidate.record if len(candidate.record) <= MAX_RECORD_CHARACTERS else "",
    )


def _target_of_face(face: ListedFace | None) -> str:
    """Of faces only a gallery says which are of one person."""
    return "" if face is None else f"{LIST_RULE}{face.list_id}/{face.entry}"


def _text(message: dict[str, object], key: str) -> str:
    value = message.get(key, "")
    return value if isinstance(value, str) else str(value)
