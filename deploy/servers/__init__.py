"""Real servers on free ports for tests and benches: our broker, Apache Kafka, ZooKeeper and HBase.

Entry points: `databus.start_broker`, `databus_cluster.start_cluster`; `kafka.start_kafka`,
`kafka.kafka_jars`, `zookeeper.start_zookeeper`, of which each raises `deploy.errors.Unavailable`
where it cannot be had, and fixtures skip with that sentence.
Never: a stand-in for any of our own servers.
"""
