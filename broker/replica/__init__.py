"""Partitions as replicas: leadership, ISR, high watermark. Entry: ``manager.ReplicaManager``."""
