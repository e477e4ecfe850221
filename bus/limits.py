"""Every limit of the bus's language and clients: name, unit last, one sentence why.

In: nothing. Out: integers. Limits that an operator may set are configuration keys of the broker or
of a package's settings; here is what needs no setting.
Never: a number without its reason.
"""

from __future__ import annotations

from typing import Final

MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""One request or response; Kafka's default of socket.request.max.bytes, so its clients fit."""

MAX_BATCH_BYTES: Final = 100 * 1024 * 1024
"""One record batch as stored: a batch has to fit into the frame that carries it."""

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""One batch unpacked: a few KiB of zeros may claim gigabytes, and we read batches in one piece."""

MAX_RECORDS_PER_BATCH: Final = 8 * 1024 * 1024
"""Records claimed by one header; more than any frame can hold at 12 bytes a record."""

MAX_HEADERS_PER_RECORD: Final = 1024
"""Ours are fewer than ten; a record with more is a fault, and each costs an object."""

MAX_VARINT_BYTES: Final = 5
"""An unsigned 32-bit varint; a longer one is garbage and would build huge integers."""

MAX_ARRAY_ELEMENTS: Final = 1_000_000
"""Elements of one array of a message, as Kafka 4.4's readers take them: each costs an object."""

MAX_TAGGED_FIELDS: Final = 10_000
"""Tagged fields in one place of a message, as Kafka 4.4's readers take them; messages have few."""

MAX_VARLONG_BYTES: Final = 10
"""A 64-bit varint, as the timestamp deltas of records use."""

CLIENT_QUEUE_RECORDS: Final = 200_000
"""Records waiting in an application's producer; then `produce` waits or reports, never grows."""

CLIENT_QUEUE_KIB: Final = 64 * 1024
"""The same in KiB: a city's peak of ten seconds, and small beside the process itself."""

CLIENT_FETCH_BYTES: Final = 8 * 1024 * 1024
"""What a consumer takes from one partition at once, so that a backlog fits small machines."""

CLIENT_PREFETCH_KIB: Final = 32 * 1024
"""What a consumer keeps ahead of its application."""

CLIENT_LINGER_MS: Final = 5
"""Long enough to fill batches at 500 records/s, short beside the latency the bus promises."""

CLIENT_DELIVERY_TIMEOUT_MS: Final = 120_000
"""After this a record is reported as not delivered; a broker's restart takes seconds."""

CLIENT_REQUEST_TIMEOUT_MS: Final = 30_000
"""One request to a broker, administration included."""

CLIENT_CLOSE_TIMEOUT_MS: Final = 5_000
"""To close a consumer: its last commit and its leaving the group; a stop waits no longer."""

CLIENT_CONNECT_TIMEOUT_MS: Final = 5_000
"""To connect and learn what a node serves; a person waits for it, and the next node is tried."""

CLIENT_LEADER_TIMEOUT_MS: Final = 1_000
"""A question that a leader answers in a millisecond: one that stands still is left after this, and
the cluster is asked who leads now."""

CLIENT_CONTROLLER_ATTEMPTS: Final = 5
"""How often an administrative request follows a controller that moves; more is no election."""

METADATA_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Metadata records read at once by a tool: some ten thousand partitions, decoded in a second."""

METADATA_SNAPSHOT_BYTES: Final = 256 * 1024 * 1024
"""A checkpoint of the metadata a tool takes in: a million partitions; more would fill memory."""
