"""The frozen image of the cluster and the deltas between two of them."""
