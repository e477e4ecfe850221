"""The forms in which records come over HTTP, each as the records that it holds.

In: a body, its content type, the kind that its address names. Out: `PostedRecord`s for
`Edge.accept`, which knows no form. Raises `UnknownType`, `BadForm`, `ForeignForm`. Never: judging a
record.
"""

from __future__ import annotations

from ingest.edge.admission import PostedRecord
from ingest.edge.batch_parser import media_type, split
from ingest.edge.request import form_of
from ingest.normalise.multipart import MULTIPART


def posted_records(body: bytes, content_type: str, kind: str) -> list[PostedRecord]:
    """A form holds one record and its pictures; JSON one, a list, or one in each line."""
    if media_type(content_type) == MULTIPART:
        form = form_of(body, content_type)
        return [PostedRecord(kind, form.record, form.pictures)]
    return [PostedRecord(kind, value) for value in split(body, content_type)]
