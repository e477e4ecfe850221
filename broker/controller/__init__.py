"""Decisions about the cluster's metadata and the log they are kept in."""
