"""Which state of a site is carried, and how two values become one. Pure."""
