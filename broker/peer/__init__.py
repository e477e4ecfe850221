"""Connections from this process to other brokers and controllers."""
