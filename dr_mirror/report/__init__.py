"""What a switch of the primary has lost: its report, its gaps, the counts of both sites."""
