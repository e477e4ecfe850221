"""What a switch does next, by what both sites answer. Pure."""
