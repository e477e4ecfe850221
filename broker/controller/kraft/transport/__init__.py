"""Kafka's messages, connections to other quorum nodes, fetches that wait."""
