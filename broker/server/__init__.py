"""Assembly and life of one broker. Entry: `run` (a process), `serve` (in a running loop)."""

from broker.server.process import run, serve

__all__ = ["run", "serve"]
