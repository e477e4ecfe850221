"""Quality of what was captured (rows Q-0 to Q-4 of docs/from_the_seeds.md): pure models only."""
