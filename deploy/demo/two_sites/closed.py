"""The folders of two closed sites for `demo --sites 2 --secure`, each trusted by the other.

In: where the data of the demo are. Out: two folders as `secure init`, `secure export` and
`secure trust` make them. Never: a folder of the product's own: these sites live as long as the
demo.
"""

from __future__ import annotations

from pathlib import Path

from deploy.secure.init import init, new_passphrase, own_places
from deploy.secure.layout import AUTHORITY_KEY, DEFAULT_FOLDER
from deploy.secure.other_site import EXPORTED, export_site, trust
from dr_mirror.settings import MirrorSettings


def site_folder(root: Path, name: str) -> Path:
    """That of one site, `a` or `b`."""
    return root / name / DEFAULT_FOLDER


def close_pair(root: Path, mirror: MirrorSettings, brokers: int) -> None:
    """Both folders. Raises OperatorError."""
    places = own_places()
    folders = {
        mirror.source_cluster_alias: site_folder(root, "a"),
        mirror.target_cluster_alias: site_folder(root, "b"),
    }
    for alias, folder in folders.items():
        init(folder, site=alias, brokers=brokers, places=places, passphrase=new_passphrase())
        (folder / AUTHORITY_KEY).unlink()  # nobody knows its passphrase, and nothing needs it
    (alias_a, a), (alias_b, b) = folders.items()
    for alias, own, other in ((alias_a, a, b), (alias_b, b, a)):
        file = own.parent / "export.toml"
        export_site(own, alias, file, EXPORTED)
        trust(other, file, mirror)
        file.unlink()
