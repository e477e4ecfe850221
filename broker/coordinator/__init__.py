"""Consumer groups and their offsets: decide, record, replay."""
