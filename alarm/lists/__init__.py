"""Lists of plates: from a file to the topic, and from there to tables that processes share."""
