"""The log cleaner: what of a compacted log is cleaned next, and the pass that does it (KIP-58, 354,
534)."""
