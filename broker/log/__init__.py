"""Partition logs in Kafka's own files: append, read, recover, delete old segments.

Entry: ``log.Log`` for one partition, ``manager.LogManager`` for all of a broker.
"""
