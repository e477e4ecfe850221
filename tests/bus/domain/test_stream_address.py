"""Which addresses a recorder opens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.stream_address import StreamAddress, StreamRefused, check_host, stream_address


def test_an_address_has_a_host_and_a_port() -> None:
    url = "rtsp://10.0.0.9/Streaming/Channels/101?x=1"
    assert stream_address(url) == StreamAddress("10.0.0.9", 554, url)
    assert stream_address("rtsp://[2001:db8::1]:8554/a")[:2] == ("2001:db8::1", 8554)


@pytest.mark.parametrize(
    "url",
    [
        "", "http://10.0.0.9/", "file:///etc/passwd", "rtsp://", "rtsp://user:secret@10.0.0.9/",
        "rtsp://user@10.0.0.9/", "rtsp://@10.0.0.9/", "rtsp://10.0.0.9/a b", "rtsp://10.0.0.9/\r\nX: y",
        "rtsp://10.0.0.9:99999/", "rtsp://10.0.0.9/#a", "rtsp://10.0.0.9/" + 500 * "a", "rtsp://相机/",
    ],
)  # fmt: skip
def test_other_schemes_passwords_and_odd_characters_are_refused(url: str) -> None:
    with pytest.raises(StreamRefused) as refused:
        stream_address(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "224.0.0.1",
     "0.0.0.0", "::", "255.255.255.255", "::ffff:169.254.1.1"],
)  # fmt: skip
def test_this_machine_links_and_groups_are_refused(address: str) -> None:
    with pytest.raises(StreamRefused):
        check_host(address)


def test_this_machine_is_opened_where_the_settings_allow_it_and_links_never() -> None:
    check_host("127.0.0.1", allow_loopback=True)
    check_host("10.0.0.9")
    check_host("2001:db9::1")
    with pytest.raises(StreamRefused):
        check_host("169.254.169.254", allow_loopback=True)


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_text_is_an_address_or_refused(text: str, host: str) -> None:
    for url in (text, f"rtsp://{host}", f"rtsp://10.0.0.1{text}"):
        try:
            found = stream_address(url)
        except StreamRefused:
            continue
        assert found.host
        assert "@" not in url.split("/")[2]
