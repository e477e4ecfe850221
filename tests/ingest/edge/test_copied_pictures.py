"""A mirror brings pictures of another site under their names, and nothing else may."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from bus.contracts.picture_digest import (
    REPR_DIGEST,
    WANT_REPR_DIGEST,
    WANTED,
    digest_header,
    digest_of,
)
from ingest.settings import EdgeSettings

NAME = "20261010/c1/r-vehicle.jpg"
PICTURE = b"\xff\xd8\xffa picture"
MIRROR = {"authorization": "Bearer secret of a mirror"}


@pytest.fixture
def edge_settings() -> EdgeSettings:
    return EdgeSettings(
        spool_min_free_bytes=0, max_picture_bytes=1_000,
        mirror_tokens={"B": "secret of a mirror"}, tokens={"server-1": "secret of a sender"},
    )  # fmt: skip


async def put(
    http: httpx.AsyncClient, name: str = NAME, data: bytes = PICTURE, **headers: str
) -> httpx.Response:
    said = {REPR_DIGEST: digest_header(digest_of(data)), **MIRROR, **headers}
    return await http.put(f"/pictures/{name}", content=data, headers=said)


async def test_a_picture_is_kept_under_its_name_and_reads_back_with_its_digest(
    http: httpx.AsyncClient, tmp_path: Path
):
    assert (await put(http)).status_code == 201
    assert (await put(http)).status_code == 200
    assert (tmp_path / "pictures" / NAME).read_bytes() == PICTURE
    found = await http.head(f"/pictures/{NAME}", headers={**MIRROR, WANT_REPR_DIGEST: WANTED})
    assert found.headers[REPR_DIGEST] == digest_header(digest_of(PICTURE))
    assert REPR_DIGEST not in (await http.get(f"/pictures/{NAME}", headers=MIRROR)).headers


async def test_the_digest_is_of_what_the_disk_has_now(http: httpx.AsyncClient, tmp_path: Path):
    await put(http)
    (tmp_path / "pictures" / NAME).write_bytes(b"altered")
    found = await http.head(f"/pictures/{NAME}", headers={**MIRROR, WANT_REPR_DIGEST: WANTED})
    assert found.headers[REPR_DIGEST] == digest_header(digest_of(b"altered"))


async def test_no_picture_is_overwritten_by_another_one(http: httpx.AsyncClient, tmp_path: Path):
    await put(http)
    assert (await put(http, data=b"another")).status_code == 409
    assert (tmp_path / "pictures" / NAME).read_bytes() == PICTURE


@pytest.mark.parametrize(
    "name", ["r.jpg", "alarms/20261010/a/0.jpg", "20261010/.x/r.jpg", "a" * 300, "20261010/%2e%2e/x"]
)
async def test_a_name_that_no_record_s_picture_has_is_refused(http: httpx.AsyncClient, name: str):
    """Copies of alarms are the dispatcher's."""
    assert (await put(http, name)).status_code == 400


@pytest.mark.parametrize("said", ["", "sha-256=:AAAA:", digest_header(bytes(32)), "md5=:AAAA:"])
async def test_what_came_otherwise_than_it_left_is_refused(http: httpx.AsyncClient, said: str):
    answer = await put(http, **{REPR_DIGEST: said})
    assert (answer.status_code, answer.json()["error"]) == (400, "bad-digest")


async def test_a_picture_beyond_the_bound_is_refused(http: httpx.AsyncClient):
    assert (await put(http, data=bytes(1_001))).status_code == 413


@pytest.mark.parametrize(
    ("token", "status"), [("", 401), ("secret of a sender", 403), ("unknown", 401)]
)
async def test_only_a_mirror_s_token_opens_the_store(
    http: httpx.AsyncClient, tmp_path: Path, token: str, status: int
):
    answer = await put(http, authorization=f"Bearer {token}")
    assert answer.status_code == status
    assert not (tmp_path / "pictures" / NAME).exists()


class TestWithoutTokens:
    """As on one machine, where everybody may send and read."""

    @pytest.fixture
    def edge_settings(self) -> EdgeSettings:
        return EdgeSettings(spool_min_free_bytes=0)

    async def test_nobody_may_copy(self, http: httpx.AsyncClient):
        assert (await put(http)).status_code == 401
