"""The shells of a switch of the primary site: one process that asks and changes both clusters."""
