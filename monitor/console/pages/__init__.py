"""One module per page; each has `build(view)`, which only wires."""
