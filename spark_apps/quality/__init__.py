"""What was sent against what can be used."""
