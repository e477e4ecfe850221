"""What is stored, behind one port: `open_store(url, mode)`; rows and questions are in
`ingest.store.port`."""

from ingest.store.open import open_store

__all__ = ["open_store"]
