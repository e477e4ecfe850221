"""Where the pictures of records are served, by the edge and by the console. Pure."""

from __future__ import annotations

PICTURES_PREFIX = "/pictures/"
"""What stands before a picture's name in the path of its address."""
