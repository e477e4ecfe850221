"""Counters under Kafka's names, shown in Prometheus' text format. Entry: ``registry.Metrics``."""
