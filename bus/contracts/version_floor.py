"""Which commands of a topic that is a table are too old to be taken, once its removals are gone.

A removal is a value for a while, so that a command that is older and comes late changes nothing.
Before its tombstone is written, a record under `FLOOR_KEY` says up to which version all commands
are decided: `op` is `floor`, `version` is the number. In/out: nothing. Never: a key of a rule or an
entry of that name.
"""

from __future__ import annotations

FLOOR_KEY = "version-floor"
