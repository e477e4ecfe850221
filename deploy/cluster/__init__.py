"""A cluster on one machine: several brokers, KRaft or ZooKeeper, supervised as `up` does it.

Entry points: `layout.plan`, `processes.cluster_processes`, `run.up`. Never: anything a broker must
know of itself beyond Kafka's own keys.
"""
