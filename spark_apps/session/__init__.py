"""The Spark session of a driver: its settings, its failures, its executors."""
