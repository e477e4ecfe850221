"""`databus bench cluster`: three of our brokers and three of Apache Kafka's, side after side.

Entry point: `deploy.bench.cluster.measure.measure`. The same cores, the same client programs;
topics of three copies with two in sync. Never: both clusters running at once.
"""
