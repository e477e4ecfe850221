"""What a batch of records is: its messages, its size, its slices, its numbers."""
