"""The mirror between two sites: what is copied, the copying itself, and the proof."""
