"""Log directories: moves between them, where replicas lie, strays, the watermark checkpoint."""
