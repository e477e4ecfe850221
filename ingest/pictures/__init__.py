"""The originals (I-7): `store` reads and writes them, `writer` is the edge's side, `alarm_copies`
keeps those of alarms, `open` makes the store of a site.

Nothing is imported here: who names a picture only does not pay for file systems.
"""
