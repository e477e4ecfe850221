"""Pictures of records, copied from edge to edge and compared there."""
