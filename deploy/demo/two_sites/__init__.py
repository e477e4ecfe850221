"""Two sites on one machine, for `demo --sites 2`."""
