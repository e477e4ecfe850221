"""What pages of the documentation are made with: the table of metrics, the pictures of the console.

Entry points: `python -m deploy.documentation.metrics_document`, `screenshots.save_pictures`. Never:
a page that a person writes.
"""
