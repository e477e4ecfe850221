"""The process that notices by the clock that something stands still, without Spark and store."""
