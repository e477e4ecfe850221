"""Raft: the metadata log of a KRaft quorum, its voters and observers. Entry: `node.RaftNode`."""
