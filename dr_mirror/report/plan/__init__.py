"""What a switch has lost, as values. Pure."""
