"""Quality of what was captured (businesses.md Q-0 to Q-4): pure models only."""
