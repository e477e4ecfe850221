"""What a site keeps as a folder, and back: records, alarms, accounts, rules, register.

Entry points: `backup.backup`, `backup.restore`; `control_topics.put_back` for the start after it.
Never: a write into stores that a product has open.
"""
