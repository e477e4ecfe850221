"""Offline tools: formatting log directories, migration from ZooKeeper to KRaft."""
