"""What pages of the documentation are made with: the table of metrics, the pictures of the console,
the figures of the code.

Entry points: `python -m deploy.documentation.metrics_document`, `screenshots.save_pictures`,
`python -m deploy.documentation.structure`. Never: a page that a person writes.
"""
