"""The comparison of both sites, at once and all the time: what is proven, and what differs."""
