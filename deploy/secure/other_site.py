"""Two closed sites of a mirrored pair: what one exports, and what the other keeps of it.

In: the folders of both, one file between them. Out: the other site's authority and a login of our
processes there, in our own folder; the settings that come of it. Never: an authority's key, the
operator's login, a login of a process that stays at its site.

The file is carried by whoever installs the sites; nothing of it goes over the bus. Both directions
are needed: each site reaches the other after a switch.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bus.contracts.access import ACROSS_SITES, CITY, CONSOLE, EDGE, MIRROR, OPERATOR
from deploy.errors import OperatorError
from deploy.secure.layout import (
    AUTHORITY_CERTIFICATE,
    OTHER_SITES,
    PAIR,
    SECRET_BYTES,
    account_path,
    other_account_path,
    other_site_path,
)
from deploy.secure.secret_files import make_private_folder, replace_secret, toml_of
from deploy.secure.secret_tables import Tables, read_tables
from dr_mirror.settings import MirrorSettings

ACCOUNTS_SECRET, MIRROR_TOKEN = "accounts_secret", "mirror_token"
"""What both sites of a pair share: the key that seals the console's accounts, and the token with
which mirror and edges ask each other's edges, for pictures and pages."""
EXPORTED = (*ACROSS_SITES, CITY)
"""Accounts that may be: the last one where simulated cameras send to both sites."""
_LOGIN_KEYS = ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
_AUTHORITY = "ca.pem"


class SiteExport(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The file. `authority`: certificates as PEM; `logins`: keys of librdkafka by account."""

    site: str
    authority: str
    pair: dict[str, str]
    logins: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class OtherSite:
    """What is kept of it, in names."""

    name: str
    accounts: tuple[str, ...]


def export_site(
    folder: Path, site: str, file: Path, accounts: Iterable[str] = ACROSS_SITES
) -> OtherSite:
    """Write what the other site needs of this one, called `site`. Raises OperatorError."""
    logins = {name: _login(account_path(folder, name)) for name in accounts}
    try:
        authority = (folder / AUTHORITY_CERTIFICATE).read_text("ascii")
        tables = {"pair": _pair_secrets(folder)}
        tables |= {f"logins.{name}": login for name, login in logins.items()}
        title = f"# Of {site}, for its other site and for nobody else: delete it once it is there."
        replace_secret(file, toml_of(title, tables, {"site": site, "authority": authority}))
    except OSError as error:
        raise OperatorError(f"{file} could not be written: {error}") from error
    return OtherSite(site, tuple(logins))


def trust(folder: Path, file: Path, mirror: MirrorSettings) -> OtherSite:
    """Keep what the other site has exported, instead of what it exported before. Raises
    OperatorError where it is of this very site, of none of the pair, or damaged."""
    found = _read(file)
    if found.site not in _aliases(mirror):
        raise OperatorError(
            f"{file} is of a site called {found.site};"
            f" [mirror] has {' and '.join(_aliases(mirror))}"
        )
    own = (folder / AUTHORITY_CERTIFICATE).read_text("ascii")
    if own == found.authority:
        raise OperatorError(f"{file} is of this very site; it belongs to the other one")
    known = other_site(folder, mirror)
    if known is not None and known != found.site:
        raise OperatorError(
            f"{other_site_path(folder, known)} is there: {known} is the other site already."
            " If it is this very site, delete that folder"
        )
    try:
        _store(folder, found)
        # Of two that were made apart those of the source count, at both sites.
        if found.site == mirror.source_cluster_alias or not (folder / PAIR).exists():
            _write_pair(folder, found.pair)
    except OSError as error:
        raise OperatorError(f"{folder} could not be written: {error}") from error
    return OtherSite(found.site, tuple(found.logins))


def other_site(folder: Path, mirror: MirrorSettings) -> str | None:
    """The alias of the other site of the pair, as far as it has exported something."""
    for alias in _aliases(mirror):
        if other_site_path(folder, alias).is_dir():
            return alias
    return None


def own_site(folder: Path, mirror: MirrorSettings) -> str | None:
    """The alias of this site: that of the pair that has exported nothing."""
    other = other_site(folder, mirror)
    if other is None:
        return None
    return next(alias for alias in _aliases(mirror) if alias != other)


def pair_tables(folder: Path, mirror: MirrorSettings, account: str) -> Tables:
    """What one of our accounts needs of both sites, as tables of the settings, which are called as
    accounts are; the operator has all. None where there is no other site. Raises OperatorError."""
    other = other_site(folder, mirror)
    if other is None:
        return {}
    pair = read_tables(folder / PAIR)["pair"]
    makers = {
        MIRROR: _mirror_table, EDGE: _edge_table, CITY: _city_table, CONSOLE: _console_table,
    }  # fmt: skip
    sections = [name for name in makers if account in (name, OPERATOR)]
    found = {name: makers[name](folder, mirror, other, pair) for name in sections}
    return {name: table for name, table in found.items() if table}


def pair_places(folder: Path, accounts: Iterable[str]) -> list[Path]:
    """What processes with these accounts need of the other site, below the folder; nothing where no
    other site has exported anything."""
    if not (folder / PAIR).exists():
        return []
    names = set(accounts)
    found = [PAIR] if names & {MIRROR, EDGE, CONSOLE, OPERATOR} else []
    if OPERATOR in names:
        names.update(ACROSS_SITES)
    for site in sorted((folder / OTHER_SITES).iterdir()):
        logins = [
            other_account_path(folder, site.name, name) for name in sorted(names & set(EXPORTED))
        ]
        present = [path for path in logins if path.exists()]
        found += [path.relative_to(folder) for path in (site / _AUTHORITY, *present) if present]
    return found


def _mirror_table(
    folder: Path, mirror: MirrorSettings, other: str, pair: Mapping[str, str]
) -> dict[str, Any]:
    """Its own account at each end, whoever of this site runs a command of it."""
    own_path, other_path = account_path(folder, MIRROR), other_account_path(folder, other, MIRROR)
    is_source = other == mirror.source_cluster_alias
    ends = {"source" if is_source else "target": other_path}
    if own_path.exists():
        ends["target" if is_source else "source"] = own_path
    table: dict[str, Any] = {
        f"{end}_librdkafka": read_tables(path)["bus"]["librdkafka"] for end, path in ends.items()
    }
    return {
        **table,
        "pictures_token": mirror.pictures_token or pair[MIRROR_TOKEN],
        "edge_token": mirror.edge_token or pair[MIRROR_TOKEN],
    }


def _edge_table(
    folder: Path, mirror: MirrorSettings, other: str, pair: Mapping[str, str]
) -> dict[str, Any]:
    found = read_tables(other_account_path(folder, other, EDGE))
    return {
        "second_site_librdkafka": found["bus"]["librdkafka"],
        "second_site_token": pair[MIRROR_TOKEN],
        "mirror_tokens": {MIRROR: pair[MIRROR_TOKEN]},
    }


def _city_table(
    folder: Path, mirror: MirrorSettings, other: str, pair: Mapping[str, str]
) -> dict[str, Any]:
    """Where the simulated cameras were exported, too."""
    path = other_account_path(folder, other, CITY)
    if not path.exists():
        return {}
    return {"second_site_librdkafka": read_tables(path)["bus"]["librdkafka"]}


def _console_table(
    folder: Path, mirror: MirrorSettings, other: str, pair: Mapping[str, str]
) -> dict[str, Any]:
    return {ACCOUNTS_SECRET: pair[ACCOUNTS_SECRET]}


def _store(folder: Path, found: SiteExport) -> None:
    """The authority first, so that no login lies there that nobody could use. Raises OSError."""
    home = other_site_path(folder, found.site)
    for one in (folder / OTHER_SITES, home, home / "accounts"):
        make_private_folder(one)
    replace_secret(home / _AUTHORITY, found.authority.encode())
    place = str((home / _AUTHORITY).relative_to(folder))
    for name, login in found.logins.items():
        keys = {"bus.librdkafka": {**login, "ssl.ca.location": place}}
        title = f"# {name}, at the other site {found.site}; paths begin at the site's folder."
        replace_secret(other_account_path(folder, found.site, name), toml_of(title, keys))


def _pair_secrets(folder: Path) -> dict[str, str]:
    """Made once. Raises OSError, OperatorError."""
    if not (folder / PAIR).exists():
        make_private_folder(folder / OTHER_SITES)
        fresh = {
            name: secrets.token_urlsafe(SECRET_BYTES) for name in (ACCOUNTS_SECRET, MIRROR_TOKEN)
        }
        _write_pair(folder, fresh)
    return {name: str(text) for name, text in read_tables(folder / PAIR)["pair"].items()}


def _write_pair(folder: Path, pair: Mapping[str, str]) -> None:
    replace_secret(folder / PAIR, toml_of("# What both sites of the pair share.", {"pair": pair}))


def _read(file: Path) -> SiteExport:
    """Raises OperatorError."""
    try:
        found = msgspec.convert(read_tables(file), SiteExport)
        _check(found)
    except ValueError as error:  # msgspec.ValidationError is one
        raise OperatorError(f"{file} is not what `secure export` writes: {error}") from None
    return found


def _check(found: SiteExport) -> None:
    """Raises ValueError for what would be another file when it is written, or another door."""
    from cryptography import x509  # every process starts with this module

    if set(found.pair) != {ACCOUNTS_SECRET, MIRROR_TOKEN}:
        raise ValueError("what both sites share is not there")
    if missing := set(ACROSS_SITES) - set(found.logins):
        raise ValueError(f"no login of {', '.join(sorted(missing))}")
    for name, login in found.logins.items():
        if name not in EXPORTED or set(login) != set(_LOGIN_KEYS):
            raise ValueError(f"a login of {name} with the keys {', '.join(login)}")
        if login["security.protocol"] != "SASL_SSL":
            raise ValueError(f"the login of {name} is not by TLS")
    for texts in (found.pair, *found.logins.values()):
        if not all(text.isascii() and text.isprintable() for text in texts.values()):
            raise ValueError("a value that cannot be written")
    x509.load_pem_x509_certificates(found.authority.encode())


def _login(path: Path) -> dict[str, str]:
    keys = read_tables(path)["bus"]["librdkafka"]
    return {key: keys[key] for key in _LOGIN_KEYS}


def _aliases(mirror: MirrorSettings) -> tuple[str, str]:
    return mirror.source_cluster_alias, mirror.target_cluster_alias
