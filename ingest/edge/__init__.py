"""The HTTP edge: `serve(site, bus, edge, pictures)` for a process, `create_app(...)` for what
embeds it."""
