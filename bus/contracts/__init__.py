"""The contracts of the bus: topics, keys, headers and messages. Names and shapes only, no
behaviour."""
