"""What an ordinary target is sent, and what its answers mean. Pure."""
