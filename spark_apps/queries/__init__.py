"""From an application to a running query."""
