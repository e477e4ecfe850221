"""A picture that is not here is asked of the other site's edge, of no other host, with bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ingest.pictures.store import PictureStore
from monitor.api.other_site_pictures import OtherSiteUnavailable, PicturesOfBothSites

NAME, JPEG = "20261010/c/r-vehicle.jpg", b"\xff\xd8\xff a picture"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[tuple[str, PictureStore, list[str]]]:
    """Serves a store as an edge with one reader token does, and notes what it is asked for."""
    store, asked = PictureStore((tmp_path / "a").as_uri(), ""), list[str]()

    class Answers(BaseHTTPRequestHandler):
        """An edge's answers."""

        def do_GET(self) -> None:
            """One picture."""
            asked.append(self.path)
            found = store.serve(self.path.removeprefix("/pictures/"))
            known = self.headers["Authorization"] == "Bearer t"
            redirect = "redirect" in self.path
            self.send_response(302 if redirect else 401 if not known else 200 if found else 404)
            if redirect:
                self.send_header("Location", "/pictures/" + NAME)
            for key, value in (found.headers if found else {}).items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(found.data if found and known else b"")

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", store, asked
    server.shutdown()
    server.server_close()


def test_the_own_store_first_then_the_other_sites(other, tmp_path: Path):
    """With its bytes and its headers; at neither site it is None."""
    url, theirs, asked = other
    own = PictureStore((tmp_path / "b").as_uri(), "")
    both = PicturesOfBothSites(own.serve, url, "t")
    assert both.read(NAME) is None
    theirs.put(NAME, JPEG)
    found = both.read(NAME)
    assert found
    assert (found[0], found[1]["content-type"]) == (JPEG, "image/jpeg")
    own.put(NAME, JPEG)
    count = len(asked)
    assert both.read(NAME)
    assert len(asked) == count


def test_what_is_no_name_is_never_asked_for(other, tmp_path: Path):
    """Nor is a redirect followed, or a refused token taken for a missing picture."""
    url, theirs, asked = other
    own = PictureStore((tmp_path / "b").as_uri(), "").serve
    theirs.put(NAME, JPEG)
    for hostile in ("../../etc/passwd", "http://169.254.169.254/x", "@evil/x", "a/%2e%2e/b"):
        assert PicturesOfBothSites(own, url, "t").read(hostile) is None
    assert asked == []
    for name, token in (("redirect", "t"), (NAME, "wrong")):
        with pytest.raises(OtherSiteUnavailable, match="answers"):
            PicturesOfBothSites(own, url, token).read(name)
    assert asked == ["/pictures/redirect", "/pictures/" + NAME]


def test_a_dead_other_site_is_said(tmp_path: Path):
    """Not taken for a picture that never was."""
    own = PictureStore((tmp_path / "b").as_uri(), "").serve
    with pytest.raises(OtherSiteUnavailable, match="does not answer"):
        PicturesOfBothSites(own, "http://127.0.0.1:1", "").read(NAME)
