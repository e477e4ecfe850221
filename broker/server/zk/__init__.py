"""The ZooKeeper control plane of a process: start, registration, channels to other brokers."""
