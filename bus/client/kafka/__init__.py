"""The applications' clients: confluent-kafka (librdkafka) with our defaults and our typed errors.

The only package that imports confluent_kafka. Works against our broker and Apache Kafka alike.
"""
