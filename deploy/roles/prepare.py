"""What must be there before the processes start: Java and the connector.

In: settings. Out: a prepared machine, or an `OperatorError` that says what is missing.
Never: starting a process of the product.
"""

from __future__ import annotations

from deploy.settings.composed import Settings
from deploy.setup.jars import spark_connector_jars
from deploy.setup.java import ensure_java


def prepare(settings: Settings) -> None:
    """Java and the connector's jars, fetched if need be."""
    ensure_java()
    if not settings.streams.jars:
        spark_connector_jars()
