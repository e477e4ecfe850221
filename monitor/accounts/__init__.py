"""Who may use the console: accounts, roles, sessions and one-time links, all in a local file."""
