"""The metadata log of a KRaft quorum; here with its single voter."""
