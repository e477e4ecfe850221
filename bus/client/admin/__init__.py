"""What operators do with a cluster, over the Kafka protocol: query, plan, move, elect, configure.

Never: the broker's inside; every call here works on Apache Kafka too.
"""
