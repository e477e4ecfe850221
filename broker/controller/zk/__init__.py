"""ZooKeeper mode: metadata in znodes, a controller elected by an ephemeral one."""
