"""What lies where in the folder of a secured site, and how a broker says that it counts.

In: the folder, names. Out: paths. Never: a file.
"""

from __future__ import annotations

from pathlib import Path

DEFAULT_FOLDER = "secure"
"""In the data directory, where no setting names another place."""
IN_FORCE = "access: in force"
"""How the line of a broker begins that says that users, rights and topics are."""
_STORE = "broker.pem"
_ENSEMBLE_STORE = "zookeeper.pem"
ENSEMBLE_SERVER = Path("zookeeper", "server.pem")
"""Key and certificate of our own ZooKeeper servers."""
ENSEMBLE_READER = Path("zookeeper", "console.pem")
"""What the console shows to ZooKeeper."""
ENSEMBLE_OWNER = "brokers"
"""The name to which the znodes belong, in the certificates of all brokers."""
AUTHORITY_CERTIFICATE = Path("authority", "ca.pem")
AUTHORITY_KEY = Path("authority", "ca.key")
NEXT_AUTHORITY = Path("authority", "next.pem")
NEXT_AUTHORITY_KEY = Path("authority", "next.key")
"""While authorities change: the one that comes; `AUTHORITY_CERTIFICATE` has both then."""
OTHER_SITES = Path("sites")
"""Of a mirrored pair: what the other site has exported, in a folder of its name, and what both
share."""
PAIR = OTHER_SITES / "pair.toml"
CONVERSION_FILE = Path("conversion.json")
"""While a site is on its way from open to closed: how far it is. Without it the site is closed."""
PROCESSES_MARK = Path("conversion.processes")
"""Written when our own processes are to start again, as others than before."""
SECRET_BYTES = 24
"""Of a password, at random."""
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
"""An account has a password of one of them, and while passwords change an old one of the other."""


def account_path(folder: Path, name: str) -> Path:
    """The file of what one process connects with."""
    return folder / "accounts" / f"{name}.toml"


def other_site_path(folder: Path, name: str) -> Path:
    """What the other site of a pair has exported."""
    return folder / OTHER_SITES / name


def other_account_path(folder: Path, site: str, name: str) -> Path:
    """The file of what one of our processes connects with there."""
    return other_site_path(folder, site) / "accounts" / f"{name}.toml"


def node_name(number: int | str) -> str:
    """What a broker is called in its certificate."""
    return f"broker-{number}"


def node_path(folder: Path, number: int | str) -> Path:
    """The folder of one broker."""
    return folder / "nodes" / node_name(number)


def node_store(folder: Path, number: int | str) -> Path:
    """The key and the certificate of one broker."""
    return node_path(folder, number) / _STORE


def ensemble_client_store(folder: Path, number: int | str) -> Path:
    """What one broker shows to ZooKeeper. All of these have one name, which owns the znodes."""
    return node_path(folder, number) / _ENSEMBLE_STORE


def certificate_stores(folder: Path) -> list[Path]:
    """All that the folder has, of brokers and of ZooKeeper."""
    nodes, ensemble = folder / "nodes", folder / ENSEMBLE_SERVER.parent
    return sorted([*nodes.glob("*/*.pem"), *ensemble.glob("*.pem")])
