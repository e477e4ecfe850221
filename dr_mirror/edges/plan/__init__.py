"""What edges keep, and what that makes of the RPO. Pure."""
