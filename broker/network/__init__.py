"""Sockets, frames and the order of responses. Knows bytes, not requests."""
