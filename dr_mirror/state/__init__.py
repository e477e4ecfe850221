"""What people and commands have made at the primary, carried to the other site."""
