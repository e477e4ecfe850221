"""How large, how dense and how faulty the simulated city is."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bus.settings import NotNegative, Positive, Secret, Share

Rate = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
"""Records per second."""
Hour = Annotated[float, msgspec.Meta(ge=-1, le=24)]
"""An hour of the day; -1 for the wall clock's."""


class CitySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rate` is reached at the morning peak (city hour 8); at night the city is quiet.

    `hour` says which hour of its day the city has when it starts; -1 takes the wall clock's.
    """

    seed: int = 1
    rate: Rate = 50.0  # records per second at the peak, vehicles and faces together
    hour: Hour = 8.0
    misfortunes: bool = True
    watches: bool = True  # puts its rules on the watch list; its traffic is the same without them
    misread: Share = 0.0  # of plates of all cars, as a measured reader misreads them
    face_share: Share = 0.16  # about a fifth of the vehicle flow
    # one server record in so many has a picture, and each of a watched car; 0 = none
    picture_every: NotNegative = 20
    post_interval_ms: Positive = 100  # a recognition server posts what it has gathered this often
    post_max_records: Positive = 500  # in one request, which stays far below the edge's bound
    post_timeout_ms: Positive = 10_000
    server_buffer_records: Positive = 60_000  # two minutes of a dead edge at 500/s per server
    camera_buffer_records: Positive = 200_000  # librdkafka's queue of all smart cameras together
    message_timeout_ms: Positive = 600_000  # a smart camera keeps trying through a broker's restart
    # Brokers of the second site: the smart cameras send there once it has taken over.
    second_site_bootstrap_servers: str = ""
    # how they are reached, in librdkafka's keys; empty: as our own are
    second_site_librdkafka: dict[str, Secret] = {}
    edge_token: Secret = ""  # where the edge admits only known senders
    counters_interval_ms: Positive = 10_000
    flush_timeout_ms: NotNegative = 20_000  # how long a stop may wait for pending records
