"""The room's verbs: topics, groups, produce, consume. Each is a client like anybody else's.

Never: the broker's own administration; that is the room `broker`.
"""
