"""The KRaft control plane of a process: Raft node, broker lifecycle, controller registration."""
