"""The broker: a server of Apache Kafka's protocol, one package per Kafka module.

A request goes down the packages (server, network | handlers, coordinator | controller, replica,
log, then peer, purgatory, disk, metadata, quotas, security, metrics, config) and never up. Time,
randomness, files, sockets and tasks are used only through the ports in ``clock``, ``disk`` and
``network``, so that the whole broker can run in a simulation.
"""
