"""What TLS, logins and ACLs cost, beside Apache Kafka with the same keys and suites."""
