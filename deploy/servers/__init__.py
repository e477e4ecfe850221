"""Real servers on free ports: our broker, Apache Kafka, ZooKeeper, HBase, MirrorMaker 2.

Entry points: `databus.start_broker`, `databus_cluster.start_cluster`; `kafka.start_kafka`,
`zookeeper.start_zookeeper`, `hbase.start_hbase`, of which each raises `deploy.errors.Unavailable`
where it cannot be had, and fixtures skip with that sentence.
Never: a stand-in for any of our own servers.
"""
