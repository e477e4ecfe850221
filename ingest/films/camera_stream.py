"""One camera's stream: RTSP over one TCP connection to the address that the register has.

In: an address that was checked, a password. Out: access units, as long as they come. Raises
`RtspError`, OSError, TimeoutError. Never: another host: a redirect is an error, and what a
description names is asked for over the same connection. Core: `ingest.films.rtsp`.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from bus.domain.stream_address import StreamAddress
from bus.runtime import wall_clock
from ingest.films.rtsp.digest import DigestOffer, authorization, chosen_challenge
from ingest.films.rtsp.messages import (
    InterleavedPacket,
    RtspDecoder,
    RtspError,
    RtspMessage,
    RtspResponse,
    ServerRequest,
    refusal_bytes,
    request_bytes,
)
from ingest.films.rtsp.rtp import AccessUnit, Depacketizer, rtp_packet, sender_report
from ingest.films.rtsp.sdp import VideoTrack, control_url, video_track

READ_BYTES = 64 * 1024
SESSION_TIMEOUT_S = 60
MAX_PACKETS_BEFORE_PLAY = 1_000
_TIMEOUT = re.compile(r";\s*timeout\s*=\s*(\d{1,5})")
_CHANNELS = re.compile(r"interleaved\s*=\s*(\d{1,3})-(\d{1,3})")


class CameraStream:
    """One connection, from its beginning to its end."""

    def __init__(
        self, address: StreamAddress, user: str, password: str, timeout_s: float
    ) -> None:
        self._address = address
        self._user = user
        self._password = password
        self._timeout_s = timeout_s
        self._decoder = RtspDecoder()
        self._early: deque[InterleavedPacket] = deque()
        self._challenge: DigestOffer | None = None
        self._sequence = 0
        self._authorized = 0
        self._session = ""
        self._session_timeout_s = SESSION_TIMEOUT_S
        self._channel = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self.track: VideoTrack

    async def open(self, ip: str) -> VideoTrack:
        """Connect to that address and begin; the film's track."""
        connecting = asyncio.open_connection(ip, self._address.port, limit=READ_BYTES)
        self._reader, self._writer = await asyncio.wait_for(connecting, self._timeout_s)
        url = self._address.url
        described = await self._request("DESCRIBE", url, {"Accept": "application/sdp"})
        base = described.header("content-base") or described.header("content-location") or url
        self.track = video_track(described.body)
        transport = {"Transport": "RTP/AVP/TCP;unicast;interleaved=0-1"}
        setup = await self._request("SETUP", control_url(base, self.track.control), transport)
        self._note_session(setup)
        await self._request("PLAY", control_url(base, ""), {"Range": "npt=0.000-"})
        return self.track

    async def units(self, silence_timeout_s: float) -> AsyncIterator[list[AccessUnit]]:
        """What came with each piece that was read. Ends by an error only."""
        track = self.track
        film = Depacketizer(track.codec, track.payload_type, track.clock_hz)
        found = [unit for packet in self._early for unit in self._units_of(film, packet)]
        self._early.clear()
        if found:
            yield found
        alive_s = time.monotonic() + self._session_timeout_s / 2
        unit_s = time.monotonic()
        while True:
            messages = await self._read(silence_timeout_s)
            units: list[AccessUnit] = []
            for message in messages:
                if isinstance(message, InterleavedPacket):
                    units += self._units_of(film, message)
                elif isinstance(message, ServerRequest):
                    self._writer.write(refusal_bytes(message))
            now_s = time.monotonic()
            if units:
                unit_s = now_s
                yield units
            elif now_s - unit_s > silence_timeout_s:
                raise TimeoutError(f"no picture for {silence_timeout_s:g} s")
            if now_s >= alive_s:
                alive_s = now_s + self._session_timeout_s / 2
                await self._send("GET_PARAMETER", self._address.url, {})

    async def close(self) -> None:
        """End the session as far as the camera still listens."""
        with suppress(AttributeError, OSError, RtspError, TimeoutError):
            if self._session:
                await asyncio.wait_for(self._send("TEARDOWN", self._address.url, {}), 1)
            self._writer.close()

    def _units_of(self, film: Depacketizer, packet: InterleavedPacket) -> list[AccessUnit]:
        now_ms = wall_clock.now_ms()
        if packet.channel == self._channel:
            found = rtp_packet(packet.data)
            return film.on_packet(found, now_ms) if found is not None else []
        if packet.channel == self._channel + 1:
            report = sender_report(packet.data)
            if report is not None:
                film.on_report(report)
        return []

    async def _request(self, method: str, url: str, headers: dict[str, str]) -> RtspResponse:
        """Ask; once more with a password where that is asked for. Raises `RtspError`."""
        response = await self._exchange(method, url, headers)
        if response.status == 401 and self._user:
            self._challenge = chosen_challenge(response.headers.get("www-authenticate", ()))
            response = await self._exchange(method, url, headers)
        if response.status == 401:
            raise RtspError("the camera does not accept the name and password of the settings")
        if 300 <= response.status < 400:
            raise RtspError(f"the camera redirects ({response.status}), which is refused")
        if response.status != 200:
            raise RtspError(f"{method}: status {response.status}")
        return response

    async def _exchange(self, method: str, url: str, headers: dict[str, str]) -> RtspResponse:
        await self._send(method, url, headers)
        async with asyncio.timeout(self._timeout_s):
            while True:
                response: RtspResponse | None = None
                for message in await self._read(self._timeout_s):
                    if isinstance(message, RtspResponse):
                        response = message
                    elif isinstance(message, InterleavedPacket):
                        self._hold(message)
                    else:
                        self._writer.write(refusal_bytes(message))
                if response is not None:
                    return response

    def _hold(self, packet: InterleavedPacket) -> None:
        """The first pictures may come with the answer to PLAY."""
        if len(self._early) >= MAX_PACKETS_BEFORE_PLAY:
            raise RtspError("pictures without an answer to PLAY")
        self._early.append(packet)

    async def _send(self, method: str, url: str, headers: dict[str, str]) -> None:
        self._sequence += 1
        sent = {"User-Agent": "databus", **headers}
        if self._session:
            sent["Session"] = self._session
        if self._challenge is not None:
            self._authorized += 1
            sent["Authorization"] = authorization(
                self._challenge, self._user, self._password, method, url,
                secrets.token_hex(8), self._authorized,
            )  # fmt: skip
        self._writer.write(request_bytes(method, url, self._sequence, sent))
        await asyncio.wait_for(self._writer.drain(), self._timeout_s)

    async def _read(self, timeout_s: float) -> list[RtspMessage]:
        data = await asyncio.wait_for(self._reader.read(READ_BYTES), timeout_s)
        if not data:
            raise RtspError("the camera has closed the connection")
        return self._decoder.feed(data)

    def _note_session(self, setup: RtspResponse) -> None:
        session = setup.header("session")
        self._session = session.partition(";")[0].strip()
        if found := _TIMEOUT.search(session):
            self._session_timeout_s = min(max(int(found[1]), 5), SESSION_TIMEOUT_S)
        transport = setup.header("transport")
        channels = _CHANNELS.search(transport)
        if channels is None:
            raise RtspError("the camera sends no film over the connection of its control (TCP)")
        self._channel = int(channels[1])
