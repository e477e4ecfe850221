"""Kafka's configuration keys as one table. Entry: ``views.BrokerConfig``, ``views.TopicConfig``."""
