"""The reconciliation records: per block of offsets what the source had, and how far each proof is.

In: blocks that were compared, the proofs of partitions. Out: the same after a restart. SQLite, one
writer. Never: a record of the bus, and nothing that copying depends on: without the file all is
proven again.

A block's record is written when the block is compared the first time and at every scrub, once it
was equal on all replicas that were compared. It outlives both sides' retention only as long as the
target holds the block.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bus.client.model import TopicPartition
from bus.records.block_digest import BlockDigest
from dr_mirror.one_writer_file import OneWriterFile
from dr_mirror.proof.plan.partition_proof import PartitionProof

VERSION = 1
MAX_RECORDS = 1_000_000
"""A week of 1,600 records/s in blocks of 1,000; about 100 MB. Beyond it the oldest proofs go
first."""
PRUNE_EVERY = 10_000
"""Records written between two looks at the bound."""

_TABLES = """
CREATE TABLE blocks (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, first_offset INTEGER NOT NULL,
    end_offset INTEGER NOT NULL, batches INTEGER NOT NULL, records INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL, digest BLOB NOT NULL, brokers TEXT NOT NULL, proven_ms INTEGER NOT
    NULL, PRIMARY KEY (topic, partition, first_offset)
) WITHOUT ROWID;
CREATE INDEX blocks_proven ON blocks (proven_ms);
CREATE TABLE proofs (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
"""


class ReconciliationFileError(Exception):
    """The file cannot be opened, read or written just now; the text says why."""


class ReconciliationFile:
    """The one writer, for any thread. Invariant: between calls no transaction is open."""

    def __init__(self, path: Path) -> None:
        """Raises ReconciliationFileError."""
        self._written = 0
        self._file = OneWriterFile(
            path, _TABLES, VERSION, ReconciliationFileError, "all is proven again"
        )

    def close(self) -> None:
        """Close it; another mirror may open it."""
        self._file.close()

    def proofs(self) -> list[PartitionProof]:
        """All partitions. Raises ReconciliationFileError."""
        with self._file.reading() as db:
            rows = db.execute("SELECT body FROM proofs").fetchall()
            return [msgspec.json.decode(body, type=PartitionProof) for (body,) in rows]

    def save(self, bodies: Iterable[tuple[TopicPartition, bytes, int]]) -> None:
        """Proofs as JSON with their log starts, below which records of blocks are dropped. Raises
        ReconciliationFileError."""
        saved = list(bodies)
        with self._file.transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO proofs (topic, partition, body) VALUES (?, ?, ?)",
                ((*place, body) for place, body, _ in saved),
            )
            db.executemany(
                "DELETE FROM blocks WHERE topic = ? AND partition = ? AND first_offset < ?"
                " AND end_offset <= ?",
                ((*place, start, start) for place, _, start in saved),
            )

    def forget(self, partition: TopicPartition) -> None:
        """The target has another topic of this name by now. Raises ReconciliationFileError."""
        with self._file.transaction() as db:
            for table in ("blocks", "proofs"):
                db.execute(
                    f"DELETE FROM {table} WHERE topic = ? AND partition = ?", partition
                )

    def add(
        self, partition: TopicPartition, blocks: Sequence[BlockDigest], brokers: str, now_ms: int
    ) -> None:
        """Blocks that were equal on these replicas. Raises ReconciliationFileError."""
        with self._file.transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO blocks (topic, partition, first_offset, end_offset,"
                " batches, records, size_bytes, digest, brokers, proven_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((*partition, *block, brokers, now_ms) for block in blocks),
            )
            self._written += len(blocks)
            if self._written >= PRUNE_EVERY:
                self._written = 0
                _prune(db)

    def blocks(self, partition: TopicPartition, first: int, end: int) -> list[BlockDigest]:
        """What is recorded of the blocks that begin in [first, end). Raises
        ReconciliationFileError."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT first_offset, end_offset, batches, records, size_bytes, digest FROM blocks"
                " WHERE topic = ? AND partition = ? AND first_offset >= ? AND first_offset < ?"
                " ORDER BY first_offset",
                (*partition, first, end),
            ).fetchall()
        return [BlockDigest(*row) for row in rows]


def _prune(db: sqlite3.Connection) -> None:
    (count,) = db.execute("SELECT count(*) FROM blocks").fetchone()
    if count > MAX_RECORDS:
        db.execute(
            "DELETE FROM blocks WHERE (topic, partition, first_offset) IN (SELECT topic,"
            " partition, first_offset FROM blocks ORDER BY proven_ms LIMIT ?)",
            (count - MAX_RECORDS,),
        )
