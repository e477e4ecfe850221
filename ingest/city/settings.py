"""How large, how dense and how unlucky the simulated city is.

In: values that `deploy.settings` has read. Out: a frozen object. Never: files, clocks.
"""

from __future__ import annotations

import msgspec

from bus.settings import Secret


class CitySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rate` is reached at the morning peak (city hour 8); at night the city is quiet.

    `hour` says which hour of its day the city has when it starts; -1 takes the wall clock's.
    """

    seed: int = 1
    rate: float = 50.0  # records per second at the peak, vehicles and faces together
    hour: float = 8.0
    misfortunes: bool = True
    face_share: float = 0.16  # about a fifth of the vehicle flow
    picture_every: int = 20  # one server record in so many carries a picture; 0 = none
    post_interval_ms: int = 100  # a recognition server posts what it has gathered this often
    post_max_records: int = 500  # in one request; keeps a request far below the edge's size bound
    post_timeout_ms: int = 10_000
    server_buffer_records: int = 60_000  # two minutes of a dead edge at 500 records/s per server
    camera_buffer_records: int = 200_000  # librdkafka's queue of all smart cameras together
    message_timeout_ms: int = 600_000  # a smart camera keeps trying through a broker's restart
    edge_token: Secret = ""  # where the edge lets only known senders in
    counters_interval_ms: int = 10_000
    flush_timeout_ms: int = 20_000  # how long a stop may wait for pending records
