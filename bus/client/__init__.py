"""The applications' client: confluent-kafka (librdkafka) with our defaults and our typed errors.

Works against our broker and against Apache Kafka alike. Never used inside the broker, which has
the raw-batch client for its peers. No module-level clients: whoever needs one makes and closes it.
"""
