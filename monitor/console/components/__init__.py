"""Our own browser components: the map."""
