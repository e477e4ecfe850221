"""What of the bought pieces is here, fetched on the way if it can be.

In: nothing. Out: (name, state, whether it is there). Never: stopping at the first that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deploy.errors import Unavailable
from deploy.setup.jars import ensure_maven, spark_connector_jars
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import (
    kafka_jars,
    metadata_shell_jars,
    mirror_maker_jars,
    zookeeper_jars,
)
from deploy.setup.video_models import ensure_model, ensure_runtime

PIECES: tuple[tuple[str, Callable[[], object]], ...] = (
    ("Java 17 or 21", ensure_java),
    ("Maven", ensure_maven),
    ("Spark's Kafka connector", spark_connector_jars),
    ("Apache Kafka 4.4 (tests and benches)", kafka_jars),
    ("MirrorMaker 2 of Apache Kafka 4.3 (tests and benches)", mirror_maker_jars),
    ("kafka-metadata-shell of Apache Kafka 4.3 (tests)", metadata_shell_jars),
    ("ZooKeeper (tests)", zookeeper_jars),
)


VIDEO_PIECES: tuple[tuple[str, Callable[[], object]], ...] = (
    ("what models run with", ensure_runtime),
    ("NanoDet, the detector of films", ensure_model),
)


def pieces(video: bool = False) -> Iterator[tuple[str, str, bool]]:
    """Try every piece; of films only if asked for."""
    for name, ensure in PIECES + VIDEO_PIECES * video:
        try:
            found = ensure()
        except Unavailable as missing:
            yield name, str(missing), False
        else:
            yield name, f"{len(found)} jars" if isinstance(found, list) else str(found), True
