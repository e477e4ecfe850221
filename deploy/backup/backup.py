"""`backup`: the stores of one site, its rules, lists and register as a folder, while everything
runs; `restore`: back again.

Each database is copied by SQLite's online backup in one read transaction, so a copy is of one
moment: its rows and its positions belong together, and what reads the bus goes on from there. The
files are of moments shortly after each other. The bus's own logs, the spool and pictures are no
part of it.

In: settings, a folder. Out: that folder, or the data directory, checked before anything is
replaced. Records in HBase stay there, as snapshots (`hbase_snapshots`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from alarm.dispatch.operations import mark_restored
from bus.contracts.commands import WatchCommand
from bus.errors import BusError
from bus.files.lock_file import hold_lock_file
from bus.notify.notice_table import mark_repeated
from bus.runtime.wall_clock import now_ms
from deploy.backup.control_topics import (
    PROPOSALS,
    REGISTER,
    RULES,
    encode_beside_rules,
    encode_rules,
    read_control,
    register_text,
    restored_folder,
)
from deploy.backup.hbase_snapshots import SHELL, TableSnapshots, put_back_snapshots, take_snapshots
from deploy.backup.saved_lists import LISTS, encode_lists
from deploy.errors import OperatorError
from deploy.open_stores import open_operations
from deploy.settings.composed import Settings
from deploy.supervisor.state_file import in_use_error, is_held
from ingest.store.port import StoreError
from ingest.store.sqlite.errors import sqlite_errors

FORMAT = 3
FORMATS_READ = (1, 2, 3)
"""1: before the rules and who has acknowledged what; 2: before lists of plates."""
MANIFEST = "manifest.json"
OPERATIONS, WATCH, QUESTIONS = "operations.db", "watch.db", "questions.db"
BUSY_TIMEOUT_S = 10.0  # a reader waits only while another process recovers the file after a crash
_BLOCK_BYTES = 1 << 20


class SavedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a backup. `version` is that of a database's tables, 0 for another file."""

    name: str
    size_bytes: int
    sha256: str
    version: int = 0


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds; written last, so that a folder without it is no backup."""

    format: int
    site: str
    made_at_ms: int
    files: list[SavedFile]
    warnings: list[str] = []  # what is not as it should be, in words
    hbase: TableSnapshots | None = None


def places(settings: Settings, *, with_records: bool = True) -> dict[str, Path]:
    """What is saved as files: name in the backup -> where it lies."""
    site, url = settings.site, settings.store.records_url(settings.site)
    found = {
        OPERATIONS: settings.dispatcher.operations_path(site),
        WATCH: settings.watch.file_path(site),
        "accounts.db": site.data_path / "console" / "accounts.db",
        "acknowledged.db": site.data_path / "notices" / "acknowledged.db",
        QUESTIONS: site.data_path / QUESTIONS,
        REGISTER: site.data_path / REGISTER,
    }
    if with_records and url.startswith("sqlite://"):
        found["records.db"] = Path(url.removeprefix("sqlite://"))
    return found


def backup(
    settings: Settings, target: Path, *, with_records: bool = True, hbase_shell: str = SHELL
) -> BackupManifest:
    """Copy all there is into a new folder. Raises `OperatorError`; then there is no such folder."""
    url = settings.store.records_url(settings.site)
    in_hbase = with_records and url.startswith("hbase://")
    there = {
        name: path
        for name, path in places(settings, with_records=with_records).items()
        if path.exists()
    }
    control, warnings = _control(settings)
    if not there and not control and not in_hbase:
        raise OperatorError(f"{settings.site.data_path} holds nothing to save yet")
    if target.exists():
        raise OperatorError(f"{target} exists; name a folder that does not")
    partial = target.with_name(target.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True, mode=0o700)  # it holds password hashes
        files = [
            _save(name, path, partial / name) for name, path in there.items() if name not in control
        ]
        hbase = take_snapshots(url, hbase_shell) if in_hbase else None
        for name, data in control.items():
            (partial / name).write_bytes(data)
            files.append(_saved(name, partial / name))
        manifest = BackupManifest(
            format=FORMAT, site=settings.site.name, made_at_ms=now_ms(), files=files,
            warnings=warnings, hbase=hbase,
        )  # fmt: skip
        _write_durably(partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        partial.rename(target)
        _sync(target.parent)
    except OperatorError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise OperatorError(f"nothing was saved in {target}: {error}") from error
    return manifest


def restore(
    settings: Settings, source: Path, *, replace: bool = False, hbase_shell: str = SHELL
) -> BackupManifest:
    """Put a backup into the data directory of a product that does not run. Everything is copied
    and compared before the first file is replaced. Raises `OperatorError`."""
    folder, manifest = settings.site.data_path, read_manifest(source)
    url = settings.store.records_url(settings.site)
    if manifest.hbase is not None and not url.startswith("hbase://"):
        raise OperatorError(f"the records of {source} are in HBase: say where in store.url")
    if is_held(folder):
        raise in_use_error(folder)
    names = {file.name for file in manifest.files}
    wanted = places(settings, with_records="records.db" in names)
    for path in wanted.values():
        _refuse_open_store(path)
    for name in (RULES, PROPOSALS, LISTS):
        if name in names:
            wanted[name] = restored_folder(settings) / name
    there = [str(path) for path in wanted.values() if path.exists()]
    if there and not replace:
        raise OperatorError(
            f"{', '.join(there)} would be replaced; move them away, restore into another directory "
            "with --data-dir, or say --replace"
        )
    try:
        shutil.rmtree(restored_folder(settings), ignore_errors=True)  # of an earlier restore
        fresh = {
            wanted[file.name]: _checked_copy(source, file, wanted[file.name])
            for file in manifest.files
        }
        _mark_restored(fresh, wanted)
        _put_in_place(fresh)
        if REGISTER in names:  # in force while its topic is empty; the next start fills that
            _put_aside(wanted[REGISTER], restored_folder(settings) / REGISTER)
    except (OSError, StoreError) as error:
        raise OperatorError(f"{source} was not restored as a whole: {error}") from error
    if manifest.hbase is not None:
        put_back_snapshots(url, manifest.hbase.tables, hbase_shell, replace=replace)
    return manifest


def _mark_restored(fresh: Mapping[Path, Path], wanted: Mapping[str, Path]) -> None:
    """The copies say of themselves what they are: notices that wait in them may have been sent
    since, and so may those of all that their writers read again. Raises `StoreError`, `OSError`."""
    operations, watch = (fresh.get(wanted[name]) for name in (OPERATIONS, WATCH))
    if operations is not None:
        mark_restored(operations, now_ms())
        _sync(operations)
    if watch is not None:
        with sqlite_errors(watch), closing(sqlite3.connect(watch)) as db, db:
            mark_repeated(db, now_ms())
        _sync(watch)


def read_manifest(source: Path) -> BackupManifest:
    """What a backup says of itself. Raises `OperatorError`."""
    try:
        manifest = msgspec.json.decode((source / MANIFEST).read_bytes(), type=BackupManifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OperatorError(f"{source} is no backup of ours: {error}") from error
    if manifest.format not in FORMATS_READ:
        raise OperatorError(f"{source} has format {manifest.format}; this program reads {FORMAT}")
    known = {"records.db", OPERATIONS, WATCH, "accounts.db", "acknowledged.db", QUESTIONS}
    known |= {REGISTER, RULES, PROPOSALS, LISTS}
    for file in manifest.files:
        if file.name not in known:
            raise OperatorError(f"{source}: {file.name!r} is no file of a backup")
    return manifest


def _control(settings: Settings) -> tuple[dict[str, bytes], list[str]]:
    """Rules and register as they stand on the bus, and what is to be said where it is away."""
    try:
        state = read_control(settings)
    except BusError as error:
        rules, whose = _recorded_rules(settings)
        summary = (
            f"the bus does not answer ({error}): the rules are those that {whose}, lists of plates "
            "are not in it, the register is the site's own file, which `register` does not "
            "change; make another backup when the bus is back"
        )
        return ({RULES: encode_rules(rules)} if rules else {}), [summary]
    register = register_text(state)
    found = {
        RULES: encode_rules(state.rules), PROPOSALS: encode_beside_rules(state.beside_rules),
        LISTS: encode_lists(state.lists),
    }  # fmt: skip
    return found | ({REGISTER: register} if register else {}), []


def _recorded_rules(settings: Settings) -> tuple[list[WatchCommand], str]:
    """The rules as the recorder knows them."""
    try:
        with closing(open_operations(settings)) as reader:
            return reader.rules(), "the dispatcher has recorded"
    except StoreError:
        return [], "nobody has recorded: there are none in this backup"


def _put_aside(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    _sync(target)


def _save(name: str, path: Path, copy: Path) -> SavedFile:
    version = _copy_database(path, copy) if path.suffix == ".db" else _copy_file(path, copy)
    return _saved(name, copy, version)


def _saved(name: str, copy: Path, version: int = 0) -> SavedFile:
    _sync(copy)
    return SavedFile(
        name=name, size_bytes=copy.stat().st_size, sha256=_digest(copy), version=version
    )


def _copy_database(path: Path, copy: Path) -> int:
    """In one step: of a file that another process writes, several steps begin anew with each
    change. Its writer does not wait; its write-ahead log grows until the copy is made."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target, pages=-1)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log
        return int(target.execute("PRAGMA user_version").fetchone()[0])


def _copy_file(path: Path, copy: Path) -> int:
    shutil.copyfile(path, copy)
    return 0


def _refuse_open_store(path: Path) -> None:
    """A writer without our supervisor (a service manager's) holds its lock file."""
    lock = path.with_name(path.name + ".lock")
    if not lock.exists():
        return
    try:
        hold_lock_file(lock).close()
    except BlockingIOError:
        raise OperatorError(f"{path} is being written; stop the process that does it") from None


def _checked_copy(source: Path, file: SavedFile, place: Path) -> Path:
    """Beside its place, under another name. Raises `OperatorError` where the bytes differ."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(place.name + ".restored")
    fresh.touch(mode=0o600)
    shutil.copyfile(source / file.name, fresh)
    if _digest(fresh) != file.sha256:
        fresh.unlink()
        raise OperatorError(
            f"{source / file.name} is not what was saved (its checksum differs); nothing was "
            "replaced: use another backup"
        )
    _sync(fresh)
    return fresh


def _put_in_place(fresh: Mapping[Path, Path]) -> None:
    """A database that is replaced leaves no write-ahead log behind: it would be replayed into the
    other one."""
    for place, copy in fresh.items():
        for end in ("-wal", "-shm"):
            place.with_name(place.name + end).unlink(missing_ok=True)
        copy.replace(place)
    for folder in _folders(fresh):
        _sync(folder)


def _folders(paths: Iterable[Path]) -> set[Path]:
    return {path.parent for path in paths}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _write_durably(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    _sync(path)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
