"""The Raft core: pure, one replica of the metadata log."""
