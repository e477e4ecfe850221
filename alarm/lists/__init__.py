"""Lists of plates: from a file to the topic, and from the topic to who matches. See README.md."""
