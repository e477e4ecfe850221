"""The sender of what is recognised in films."""
