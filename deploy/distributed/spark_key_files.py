"""What closes a Spark cluster of this machine: one secret for master, workers and applications, and
pages that ask.

In: the folder of the cluster. Out: files that only their owner may read, made anew at each start.
Never: the secret on a command line or in an environment, which is where Spark would put it for
executors (ADR 0117).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.secure.layout import SECRET_BYTES
from deploy.secure.secret_files import replace_secret
from deploy.setup.java import java_home

PAGE_KEY_BYTES = 32
"""The least that Spark's filter takes."""
PAGE_FILTER = "org.apache.spark.ui.JWSFilter"
PAGE_KEY = f"spark.{PAGE_FILTER}.param.secretKey"
SECRET_VARIABLE = "_SPARK_AUTH_SECRET"
"""In which a worker would hand the secret to its executors, and they to each Python of theirs."""
_HADOOPS_NAME = b"sparkCookie"
"""Under which Spark looks for its secret among the credentials of Hadoop's user, first of all."""


@dataclass(frozen=True, slots=True)
class SparkKeyFiles:
    """Where the files of a cluster lie."""

    home: Path

    @property
    def properties(self) -> Path:
        """Spark's keys for master, workers and drivers, in the form of `spark-defaults.conf`."""
        return self.home / "cluster.conf"

    @property
    def credentials(self) -> Path:
        """The secret for executors, in Hadoop's form."""
        return self.home / "cluster.credentials"

    @property
    def java_home(self) -> Path:
        """A Java that takes the secret out of its environment before it is one."""
        return self.home / "java"

    @property
    def of_workers(self) -> Mapping[str, str]:
        """What the environment of a worker has more, and with it that of its executors."""
        return {
            "HADOOP_TOKEN_FILE_LOCATION": str(self.credentials),
            "JAVA_HOME": str(self.java_home),
        }

    def make(self) -> None:
        """All files, with secrets that nobody has had. Raises OSError, `Unavailable`."""
        self.home.mkdir(parents=True, exist_ok=True)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        page_key = secrets.token_urlsafe(PAGE_KEY_BYTES)
        replace_secret(self.properties, properties_text(secret, page_key).encode("ascii"))
        replace_secret(self.credentials, credentials_of(secret))
        script = self.java_home / "bin" / "java"
        script.parent.mkdir(parents=True, exist_ok=True)
        replace_secret(script, java_script(java_home() / "bin" / "java").encode())
        script.chmod(0o700)


def properties_text(secret: str, page_key: str) -> str:
    """Logins and encryption of every connection, encryption of what is put on disks, and pages that
    open to a token signed with `page_key` alone."""
    keys = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
        # Spark's default: a second way to submit applications, which the secret does not close.
        "spark.master.rest.enabled": "false",
        "spark.ui.filters": PAGE_FILTER,
        PAGE_KEY: page_key,
    }
    return "".join(f"{key} {value}\n" for key, value in keys.items())


def credentials_of(secret: str) -> bytes:
    """A file of Hadoop's `Credentials` (its first format): no tokens, one secret. Lengths of less
    than 128 are one byte."""
    value = secret.encode("ascii")
    lengths = bytes([len(_HADOOPS_NAME)]), bytes([len(value)])
    return b"HDTS\x00\x00\x01" + lengths[0] + _HADOOPS_NAME + lengths[1] + value


def java_script(java: Path) -> str:
    """What a worker starts as Java: an executor reads the file of credentials, and neither it nor
    its Pythons have the secret in their environment."""
    path = str(java).replace("'", "'\\''")
    return f"#!/bin/sh\nunset {SECRET_VARIABLE}\nexec '{path}' \"$@\"\n"
