"""Which doors of a site stand open: `secure check`.

Entry points: `gather.gather` (facts), `checks.findings` (what follows). Never: a change.
"""
