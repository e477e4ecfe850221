"""ACLs of copied topics and groups, copied beside the records."""
