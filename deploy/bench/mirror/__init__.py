"""The mirror beside MirrorMaker 2, between the same two brokers."""
