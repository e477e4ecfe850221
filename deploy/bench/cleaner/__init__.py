"""The log cleaner beside Apache Kafka's own, on the same segments."""
