"""The commands of this package: topics, groups, produce, consume and a cluster's administration.

Each is a client like any other. `deploy` mounts them; `ctx.obj` is the composed settings, of which
they use `bus` and `site` only. Never: the broker's own administration, which is in `broker`.
"""
