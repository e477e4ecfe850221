"""The copying: connections to both clusters, fetching, appending, resuming."""
