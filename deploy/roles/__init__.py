"""The roles of the product: which processes there are, what each needs, how one is started.

Entry points: `table.ROLES`, `table.children`, `run.run`. Never: keeping a process alive.
"""
