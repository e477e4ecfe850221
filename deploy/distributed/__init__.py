"""A Spark cluster and a distributed HBase on one machine. See README.md."""
