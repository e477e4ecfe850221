"""Real servers of other people for tests and benches: Apache Kafka and ZooKeeper on free ports.

Entry points: `kafka.start_kafka`, `kafka.kafka_jars`, `zookeeper.start_zookeeper`; each raises
`deploy.errors.Unavailable` by name where it cannot be had, and fixtures skip with that sentence.
Never: a stand-in for any of our own servers.
"""
