"""deploy/sbom.json, what the product installs, made from the lock files and the jars' pom:
`python -m deploy.documentation.bill_of_materials > deploy/sbom.json`.

In: the lock files, the pom of Spark's connector, licences.toml. Out: a bill of materials as
CycloneDX 1.6 (JSON). Never: the network, what happens to be installed here, a time: the same files
give the same bill.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from deploy.paths import PROJECT_ROOT
from deploy.setup.jars import SPARK_CONNECTOR_POM

LICENCES = Path(__file__).resolve().parent / "licences.toml"
REQUIRED, OPTIONAL = "required", "optional"
LOCKS = {
    "requirements.lock": REQUIRED,
    "requirements-kerberos.lock": OPTIONAL,
    "requirements-video.lock": OPTIONAL,
}
"""By CycloneDX's word for whether the product works without."""
MAVEN = "{http://maven.apache.org/POM/4.0.0}"
ALLOWED = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Open-MPI", "CC0-1.0",
        "GPL-3.0-or-later WITH GCC-exception-3.1", "ISC", "LGPL-2.1-or-later",
        "LicenseRef-Public-Domain", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "OFL-1.1", "PSF-2.0",
        "Zlib",
    }
)
"""What a part may be licensed under. GCC's runtime libraries, inside of wheels, are free of the
GPL's conditions by their exception."""
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.+!_-]+)")


class Part(NamedTuple):
    """One thing that is installed; `kind` is that of its package URL: pypi or maven."""

    kind: str
    group: str
    name: str
    version: str
    scope: str

    @property
    def purl(self) -> str:
        """Its package URL."""
        place = f"{self.group}/{self.name}" if self.group else self.name
        return f"pkg:{self.kind}/{place}@{self.version}"


def pinned(lock: str) -> Iterator[tuple[str, str]]:
    """Names and versions of a lock file. Raises ValueError for a line that pins nothing."""
    for line in lock.splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = _PIN.fullmatch(text)
        if found is None:
            raise ValueError(f"this line of a lock file pins no version: {line!r}")
        yield found["name"].lower().replace("_", "-"), found["version"]


def jars(pom: str) -> Iterator[Part]:
    """The dependencies that a pom names; it takes none that they have."""
    for one in ET.fromstring(pom).iter(f"{MAVEN}dependency"):
        texts = {each.tag.removeprefix(MAVEN): each.text or "" for each in one}
        yield Part("maven", texts["groupId"], texts["artifactId"], texts["version"], REQUIRED)


def parts() -> list[Part]:
    """All of the product."""
    found = [
        Part("pypi", "", name, version, scope)
        for lock, scope in LOCKS.items()
        for name, version in pinned((PROJECT_ROOT / lock).read_text("utf-8"))
    ]
    return [*found, *jars(SPARK_CONNECTOR_POM.read_text("utf-8"))]


def licences() -> dict[str, dict[str, str]]:
    """SPDX expressions by kind and name."""
    return tomllib.loads(LICENCES.read_text("utf-8"))


def is_allowed(expression: str) -> bool:
    """Whether a part may be used under this SPDX expression: of several to choose from, one is
    enough."""
    text = re.sub(r"\(([^()]*)\)", lambda inner: _verdict(inner[1]), expression)
    return _verdict(text) == "yes"


def bill(found: list[Part], expressions: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """As CycloneDX has it. Raises KeyError for a part whose licence nobody has written down."""
    components = [
        {
            "type": "library", "bom-ref": one.purl, **({"group": one.group} if one.group else {}),
            "name": one.name, "version": one.version, "scope": one.scope,
            "licenses": [{"expression": expressions[one.kind][one.name]}], "purl": one.purl,
        }
        for one in sorted(found)
    ]  # fmt: skip
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{name}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": "databus", "name": "databus",
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": components,
        "dependencies": [{"ref": "databus", "dependsOn": [one.purl for one in sorted(found)]}],
    }  # fmt: skip


def text() -> str:
    """The whole file."""
    return json.dumps(bill(parts(), licences()), indent=1) + "\n"


def _verdict(expression: str) -> str:
    """Of one without brackets; `yes` and `no` stand for those that are judged already."""
    allowed = {*ALLOWED, "yes"}
    choices = expression.split(" OR ")
    return (
        "yes"
        if any(all(p.strip() in allowed for p in one.split(" AND ")) for one in choices)
        else "no"
    )


if __name__ == "__main__":
    print(text(), end="")
