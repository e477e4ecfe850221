"""The clients of the bus: `kafka` for applications, `admin` for operators, `wire` below the latter.

All work against our broker and against Apache Kafka alike. No module-level clients: what needs one
makes and closes it.
"""
