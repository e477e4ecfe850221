"""What becomes of operators' commands: one decision and one answer each. Pure. See README.md."""
