"""How a reader of plates errs: plates drawn, degraded and read, and what was counted."""
