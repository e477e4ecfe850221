"""Pictures to copy, and those that were copied with their digests. SQLite, one writer.

In: names with the positions up to which topics were read, what copies came to. Out: what is due.
Never: a picture; a position without the names that were read before it. Without the file the
target's topics are read again, and what is there is compared instead of copied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from bus.client.model import TopicPartition
from dr_mirror.one_writer_file import OneWriterFile
from dr_mirror.pictures.plan.pictures import (
    MAX_LISTED,
    CopyOutcome,
    PictureCheck,
    RetainedPicture,
    TriedPicture,
    WaitingPicture,
    next_comparison_ms,
    next_try_ms,
)
from dr_mirror.policy.proof_pace import ProofPace

VERSION = 1
_TOPIC_IDS = """
CREATE TABLE IF NOT EXISTS topic_ids (
    cluster_id TEXT NOT NULL, topic TEXT NOT NULL, topic_id TEXT NOT NULL,
    PRIMARY KEY (cluster_id, topic)
) WITHOUT ROWID
"""
"""Also in a file that was made without it, which an earlier program may go on with."""
MAX_WAITING = 500_000
"""Beyond it topics are read no further: their records wait, nothing is dropped."""
MAX_RETAINED = 1_000_000
"""The digests of the newest that were copied; about 150 MB. Older ones are compared no more."""
MAX_GIVEN_UP = 10_000

_TABLES = """
CREATE TABLE positions (
    cluster_id TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL, PRIMARY KEY (cluster_id, topic, partition)
) WITHOUT ROWID;
CREATE TABLE waiting (
    name TEXT PRIMARY KEY, first_ms INTEGER NOT NULL, attempts INTEGER NOT NULL,
    next_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX waiting_next ON waiting (next_ms);
CREATE INDEX waiting_first ON waiting (first_ms);
CREATE TABLE kept (
    name TEXT PRIMARY KEY, digest BLOB NOT NULL, at_ms INTEGER NOT NULL, next_ms INTEGER NOT NULL,
    compared_ms INTEGER NOT NULL, differs INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX kept_next ON kept (next_ms);
CREATE INDEX kept_compared ON kept (compared_ms);
CREATE INDEX kept_at ON kept (at_ms);
CREATE INDEX kept_differs ON kept (name) WHERE differs;
CREATE TABLE given_up (
    name TEXT PRIMARY KEY, outcome TEXT NOT NULL, detail TEXT NOT NULL, at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE totals (outcome TEXT PRIMARY KEY, pictures INTEGER NOT NULL, bytes INTEGER NOT NULL);
"""


class PictureFileError(Exception):
    """The file cannot be opened, read or written just now; the text says why."""


class PictureFile:
    """The one writer, for any thread. Invariant: a name is waiting, kept or given up, once;
    `_counts` is how many are, or empty where a transaction has failed since."""

    def __init__(self, path: Path) -> None:
        """Raises PictureFileError."""
        self._counts: dict[str, int] = {}
        self._file = OneWriterFile(
            path, _TABLES, VERSION, PictureFileError,
            "what is at the target is compared instead of copied",
        )  # fmt: skip
        with self._transaction() as db:
            db.execute(_TOPIC_IDS)

    def close(self) -> None:
        """Close it; another mirror may open it."""
        self._file.close()

    # -- what is to be copied ---------------------------------------------------------------

    def stand_on(self, cluster_id: str, topic_ids: Mapping[str, str]) -> None:
        """That cluster's topics are these: positions on others of their names are void. Raises
        PictureFileError."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT topic, topic_id FROM topic_ids WHERE cluster_id = ?", (cluster_id,)
            )
            known = dict(rows.fetchall())
            for topic, topic_id in topic_ids.items():
                if known.get(topic, topic_id) != topic_id:
                    place = cluster_id, topic
                    db.execute("DELETE FROM positions WHERE cluster_id = ? AND topic = ?", place)
                db.execute(
                    "INSERT OR REPLACE INTO topic_ids (cluster_id, topic, topic_id)"
                    " VALUES (?, ?, ?)",
                    (cluster_id, topic, topic_id),
                )

    def positions(self, cluster_id: str) -> dict[TopicPartition, int]:
        """The next offset of each partition of that cluster that was read. Raises
        PictureFileError."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT topic, partition, next_offset FROM positions WHERE cluster_id = ?",
                (cluster_id,),
            )
            return {TopicPartition(topic, partition): at for topic, partition, at in rows}

    def add(
        self, names: Iterable[str], now_ms: int, cluster_id: str = "",
        positions: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """These are to be copied, unless they were; that cluster's topics are read up to there.
        Raises PictureFileError."""
        with self._transaction() as db:
            added = db.executemany(
                "INSERT OR IGNORE INTO waiting (name, first_ms, attempts, next_ms)"
                " SELECT ?1, ?2, 0, ?2 WHERE NOT EXISTS (SELECT 1 FROM kept WHERE name = ?1)"
                " AND NOT EXISTS (SELECT 1 FROM given_up WHERE name = ?1)",
                ((name, now_ms) for name in names),
            )
            self._changed("waiting", max(added.rowcount, 0))
            db.executemany(
                "INSERT OR REPLACE INTO positions (cluster_id, topic, partition, next_offset)"
                " VALUES (?, ?, ?, ?)",
                ((cluster_id, *place, at) for place, at in positions.items()),
            )

    def has_room(self) -> bool:
        """Whether more may wait. Raises PictureFileError."""
        with self._file.reading() as db:
            return self._count(db, "waiting") < MAX_WAITING

    def due(self, now_ms: int, limit: int) -> list[WaitingPicture]:
        """Those whose turn it is, the longest due first. Raises PictureFileError."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT name, first_ms, attempts FROM waiting WHERE next_ms <= ?"
                " ORDER BY next_ms LIMIT ?",
                (now_ms, limit),
            )
            return [WaitingPicture(*row) for row in rows]

    def settle(
        self, tried: Iterable[tuple[WaitingPicture, TriedPicture]], pace: ProofPace,
        now_ms: int,
    ) -> None:  # fmt: skip
        """What trying came to. Raises PictureFileError."""
        with self._transaction() as db:
            for waiting, found in tried:
                if found.outcome is CopyOutcome.AWAY:
                    continue  # it is nothing of the picture's
                if found.outcome.is_done:
                    self._keep(db, found, pace, now_ms)
                    continue
                again_ms = next_try_ms(waiting, found.outcome, now_ms)
                if again_ms is None:
                    self._give_up(db, found, now_ms)
                else:
                    db.execute(
                        "UPDATE waiting SET attempts = attempts + 1, next_ms = ? WHERE name = ?",
                        (again_ms, found.name),
                    )
            self._prune(db)

    def _keep(
        self, db: sqlite3.Connection, found: TriedPicture, pace: ProofPace, now_ms: int
    ) -> None:
        retained = RetainedPicture(found.name, found.digest, now_ms)
        db.execute("DELETE FROM waiting WHERE name = ?", (found.name,))
        self._changed("waiting", -1)
        self._changed("kept", 1)
        db.execute(
            "INSERT OR REPLACE INTO kept (name, digest, at_ms, next_ms, compared_ms, differs)"
            " VALUES (?, ?, ?, ?, ?, 0)",
            (*retained, next_comparison_ms(retained, pace, now_ms), now_ms),
        )
        _total(db, found.outcome, found.size)

    def _give_up(self, db: sqlite3.Connection, found: TriedPicture, now_ms: int) -> None:
        db.execute("DELETE FROM waiting WHERE name = ?", (found.name,))
        self._changed("waiting", -1)
        self._changed("given_up", 1)
        db.execute(
            "INSERT OR REPLACE INTO given_up (name, outcome, detail, at_ms) VALUES (?, ?, ?, ?)",
            (found.name, found.outcome.value, found.detail, now_ms),
        )
        _total(db, found.outcome, 0)

    def _prune(self, db: sqlite3.Connection) -> None:
        for table, most in (("kept", MAX_RETAINED), ("given_up", MAX_GIVEN_UP)):
            over = self._count(db, table) - most
            if over > 0:
                db.execute(
                    f"DELETE FROM {table} WHERE name IN"
                    f" (SELECT name FROM {table} ORDER BY at_ms LIMIT ?)",
                    (over,),
                )
                self._changed(table, -over)

    # -- what was copied ----------------------------------------------------------------------

    def to_compare(self, now_ms: int, limit: int) -> list[RetainedPicture]:
        """Those whose turn it is, the longest due first. Raises PictureFileError."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT name, digest, at_ms FROM kept WHERE next_ms <= ? ORDER BY next_ms LIMIT ?",
                (now_ms, limit),
            )
            return [RetainedPicture(*row) for row in rows]

    def compared(
        self, found: Iterable[tuple[RetainedPicture, PictureCheck]], pace: ProofPace,
        now_ms: int,
    ) -> None:  # fmt: skip
        """What comparing came to; of one that is gone nothing is known any more. Raises
        PictureFileError."""
        with self._transaction() as db:
            for picture, check in found:
                if check is PictureCheck.AWAY:
                    continue
                if check is PictureCheck.GONE:
                    db.execute("DELETE FROM kept WHERE name = ?", (picture.name,))
                    self._changed("kept", -1)
                    continue
                db.execute(
                    "UPDATE kept SET next_ms = ?, compared_ms = ?, differs = ? WHERE name = ?",
                    (
                        next_comparison_ms(picture, pace, now_ms), now_ms,
                        check is PictureCheck.DIFFERS, picture.name,
                    ),
                )  # fmt: skip

    # -- how it stands ------------------------------------------------------------------------

    def totals(self) -> dict[str, tuple[int, int]]:
        """Pictures and bytes by outcome, since the file was made. Raises PictureFileError."""
        with self._file.reading() as db:
            rows = db.execute("SELECT outcome, pictures, bytes FROM totals")
            return {outcome: (pictures, size) for outcome, pictures, size in rows}

    def waiting(self) -> tuple[int, int]:
        """How many wait, and since when the first of them does; -1: none. Raises
        PictureFileError."""
        with self._file.reading() as db:
            first = db.execute("SELECT min(first_ms) FROM waiting").fetchone()[0]
            return self._count(db, "waiting"), -1 if first is None else int(first)

    def retained(self) -> tuple[int, int]:
        """How many are compared again, and when the one was that waits longest; -1: none. Raises
        PictureFileError."""
        with self._file.reading() as db:
            first = db.execute("SELECT min(compared_ms) FROM kept").fetchone()[0]
            return self._count(db, "kept"), -1 if first is None else int(first)

    def differing(self) -> list[str]:
        """Some that are not at the target what was copied. Raises PictureFileError."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT name FROM kept WHERE differs ORDER BY name LIMIT ?", (MAX_LISTED,)
            )
            return [name for (name,) in rows]

    def given_up(self, outcomes: Iterable[CopyOutcome]) -> list[tuple[str, str]]:
        """The newest names that were given up so, and what was answered. Raises
        PictureFileError."""
        wanted = [one.value for one in outcomes]
        marks = ", ".join("?" * len(wanted))
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT name, detail FROM given_up WHERE outcome IN ({marks})"
                " ORDER BY at_ms DESC LIMIT ?",
                (*wanted, MAX_LISTED),
            )
            return [(name, detail) for name, detail in rows]

    def _count(self, db: sqlite3.Connection, table: str) -> int:
        if table not in self._counts:
            found = db.execute(f"SELECT count(*) FROM {table}").fetchone()
            self._counts[table] = int(found[0])
        return self._counts[table]

    def _changed(self, table: str, by: int) -> None:
        if table in self._counts:
            self._counts[table] += by

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._file.transaction() as db:
                yield db
        except BaseException:
            self._counts.clear()
            raise


def _total(db: sqlite3.Connection, outcome: CopyOutcome, size: int) -> None:
    db.execute(
        "INSERT INTO totals (outcome, pictures, bytes) VALUES (?1, 1, ?2) ON CONFLICT (outcome)"
        " DO UPDATE SET pictures = pictures + 1, bytes = bytes + ?2",
        (outcome.value, size),
    )
