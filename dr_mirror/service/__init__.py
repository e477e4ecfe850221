"""The role `mirror`: its process, and which way it copies."""
