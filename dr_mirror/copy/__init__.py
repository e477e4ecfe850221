"""The copying of records: connections to both clusters, fetching, appending, resuming."""
