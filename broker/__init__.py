"""The broker: a server of Apache Kafka's protocol, one room per Kafka module.

A request walks down the rooms (server, network | handlers, coordinator | controller, replica, log,
then peer, purgatory, disk, metadata, quotas, security, metrics, config) and never up.
Time, dice, files, sockets and tasks are reached only through the ports in ``clock``, ``disk`` and
``network``, so that the whole broker can run in a simulated world.
"""
