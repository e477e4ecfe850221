"""What a recorder reads of a camera: every byte sequence gives messages, pictures or its own error."""

from __future__ import annotations

import contextlib
import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.films.rtsp.digest import authorization, chosen_challenge
from ingest.films.rtsp.messages import (
    MAX_HEAD_BYTES,
    InterleavedPacket,
    RtspDecoder,
    RtspError,
    RtspResponse,
    ServerRequest,
    request_bytes,
)
from ingest.films.rtsp.rtp import Depacketizer, RtpPacket, rtp_packet, sender_report
from ingest.films.rtsp.sdp import control_url, video_track

CUTS = st.lists(st.integers(0, 400), max_size=6)
SDP = (
    b"v=0\r\nm=audio 0 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\na=control:a\r\n"
    b"m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
    b"a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg==\r\n"
    b"a=control:trackID=1\r\n"
)


def test_messages_and_packets_are_cut_the_same_wherever_the_bytes_are_divided() -> None:
    stream = (
        b"RTSP/1.0 200 OK\r\nCSeq: 3\r\nContent-Length: 5\r\nWWW-Authenticate: a\r\n"
        b"WWW-Authenticate: b\r\n\r\nhello" + b"$\x00\x00\x03abc" + b"$\x01\x00\x00"
        b"OPTIONS rtsp://x RTSP/1.0\r\nCSeq: 9\r\n\r\n"
    )
    whole = RtspDecoder().feed(stream)
    headers = {"cseq": ("3",), "content-length": ("5",), "www-authenticate": ("a", "b")}
    assert whole == [
        RtspResponse(200, "OK", headers, b"hello"),
        InterleavedPacket(0, b"abc"), InterleavedPacket(1, b""), ServerRequest("OPTIONS", "9"),
    ]  # fmt: skip
    for at in range(len(stream)):
        decoder = RtspDecoder()
        assert decoder.feed(stream[:at]) + decoder.feed(stream[at:]) == whole


@given(st.binary(max_size=400), CUTS)
def test_any_bytes_are_messages_or_an_rtsp_error(data: bytes, cuts: list[int]) -> None:
    decoder, at = RtspDecoder(), 0
    with contextlib.suppress(RtspError):
        for cut in [*sorted(cuts), len(data)]:
            decoder.feed(data[at:cut])
            at = max(at, cut)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad\r\n\r\n", b"RTSP/1.0 abc\r\n\r\n", b"RTSP/1.0 200\r\nno colon\r\n\r\n",
        b"RTSP/1.0 200\r\nContent-Length: 9999999\r\n\r\n", b"x" * MAX_HEAD_BYTES,
        b"RTSP/1.0 200\r\nContent-Length: -1\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_rtsp_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(RtspError):
        RtspDecoder().feed(data)


def test_a_line_break_never_gets_into_a_request() -> None:
    with pytest.raises(RtspError, match="line break"):
        request_bytes("SETUP", "rtsp://x/\r\nAuthorization: y", 1, {})


def test_the_first_video_of_a_known_codec_is_taken_with_its_parameter_sets() -> None:
    track = video_track(SDP)
    assert (track.codec, track.payload_type, track.clock_hz, track.control) == ("h264", 96, 90_000, "trackID=1")
    assert [one[0] & 0x1F for one in track.parameter_sets] == [7, 8]
    with pytest.raises(RtspError, match="its video is JPEG"):
        video_track(b"m=video 0 RTP/AVP 26\r\na=rtpmap:26 JPEG/90000\r\n")
    with pytest.raises(RtspError, match="there is no video"):
        video_track(b"")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_description_is_a_track_or_an_rtsp_error(body: bytes) -> None:
    for data in (body, b"m=video 0 RTP/AVP 96\na=" + body, SDP.replace(b"H264", body[:10])):
        try:
            video_track(data)
        except RtspError:
            continue


def test_a_control_is_asked_for_below_its_base() -> None:
    assert control_url("rtsp://h/a/b", "trackID=1") == "rtsp://h/a/b/trackID=1"
    assert control_url("rtsp://h/a/", "") == "rtsp://h/a/"
    assert control_url("rtsp://h/a", "rtsp://other/c") == "rtsp://other/c"


def test_the_response_to_a_digest_is_that_of_the_standards_example() -> None:
    """RFC 7616, 3.9.1, with its method, address and nonces."""
    offered = [
        'Basic realm="x"',
        'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=MD5,'
        ' nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"',
        'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=SHA-256,'
        ' nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"',
    ]
    nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
    best = authorization(chosen_challenge(offered), "Mufasa", "Circle of Life", "GET", "/dir/index.html", nonce)
    assert 'response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"' in best
    older = authorization(chosen_challenge(offered[:2]), "Mufasa", "Circle of Life", "GET", "/dir/index.html", nonce)
    assert 'response="8ca523f5e9506fed4657c9700eebdbec"' in older
    assert "Circle" not in best + older


def test_a_password_is_never_sent_as_it_is() -> None:
    with pytest.raises(RtspError, match="Digest"):
        chosen_challenge(['Basic realm="camera"'])


@given(st.lists(st.text(max_size=80), max_size=3))
def test_any_challenge_is_chosen_or_an_rtsp_error(values: list[str]) -> None:
    with contextlib.suppress(RtspError):
        authorization(chosen_challenge([*values, *("Digest " + one for one in values)]), "u", "p", "GET", "/", "n")


def packets_of(unit: list[bytes], time: int, sequence: int, size: int) -> list[RtpPacket]:
    """A picture as RFC 6184 sends it: small NAL units alone, large ones in fragments."""
    payloads: list[bytes] = []
    for nal in unit:
        if len(nal) <= size:
            payloads.append(nal)
            continue
        parts = [nal[at : at + size] for at in range(1, len(nal), size)]
        for number, part in enumerate(parts):
            flags = (0x80 if not number else 0) | (0x40 if number == len(parts) - 1 else 0)
            payloads.append(bytes([nal[0] & 0xE0 | 28, flags | nal[0] & 0x1F]) + part)
    last = len(payloads) - 1
    return [
        RtpPacket(96, number == last, sequence + number & 0xFFFF, time & 0xFFFFFFFF, payload)
        for number, payload in enumerate(payloads)
    ]


@given(st.integers(0, 1 << 32), st.integers(2, 50))
def test_pictures_come_out_as_they_were_whatever_the_fragments_and_across_the_wrap_of_numbers(
    seed: int, size: int
) -> None:
    dice = random.Random(seed)
    film = Depacketizer("h264", 96, 90_000)
    start, sequence, wanted, found = (1 << 32) - 9_000, 0xFFFE, [], []
    for number in range(6):
        kind = 5 if number == 0 else 1
        unit = [bytes([0x60 | kind]) + dice.randbytes(dice.randrange(1, 200)) for _ in range(2)]
        packets = packets_of(unit, start + 3600 * number, sequence, size)
        sequence += len(packets)
        wanted.append((tuple(unit), 3600 * number, number == 0))
        for packet in packets:
            found += film.on_packet(packet, 1_000 + number)
    assert [(one.nals, one.time - found[0].time, one.is_key) for one in found] == wanted
    assert (film.lost_packets, film.malformed_packets) == (0, 0)


def test_a_picture_of_which_a_fragment_is_missing_has_no_torn_unit() -> None:
    film = Depacketizer("h264", 96, 90_000)
    unit = [b"\x65" + bytes(range(100))]
    packets = packets_of(unit, 0, 0, 20)
    del packets[2]
    assert [one for packet in packets for one in film.on_packet(packet, 0)] == []
    assert film.lost_packets == 1
    whole = [one for packet in packets_of(unit, 3600, 6, 20) for one in film.on_packet(packet, 0)]
    assert [one.nals for one in whole] == [tuple(unit)]


def test_the_cameras_time_of_a_picture_is_that_of_its_report() -> None:
    film = Depacketizer("h264", 96, 90_000)
    ntp = (2_208_988_800 + 1_700_000_000 << 32).to_bytes(8, "big")
    report = sender_report(b"\x80\xc8\x00\x06" + bytes(4) + ntp + (90_000).to_bytes(4, "big") + bytes(8))
    assert report is not None
    film.on_report(report)
    (unit,) = film.on_packet(RtpPacket(96, True, 1, 180_000, b"\x65abc"), 7)
    assert (unit.camera_ms, unit.received_ms) == (1_700_000_001_000, 7)


@given(st.sampled_from(["h264", "h265"]), st.lists(st.binary(max_size=60), max_size=20))
def test_any_packets_are_pictures_or_left_out(codec: str, payloads: list[bytes]) -> None:
    film = Depacketizer(codec, 96, 90_000)  # type: ignore[arg-type]
    for number, payload in enumerate(payloads):
        sender_report(payload)
        packet = rtp_packet(payload)
        given_packet = packet or RtpPacket(96, bool(number % 2), number, number, payload)
        for unit in film.on_packet(given_packet._replace(payload_type=96), number):
            assert unit.nals
            hashlib.sha256(b"".join(unit.nals))
