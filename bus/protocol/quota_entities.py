"""Kinds of entities that have client quotas, by Kafka's names (KIP-546, KIP-612)."""

from __future__ import annotations

USER, CLIENT_ID, IP = "user", "client-id", "ip"
