"""Boards for Grafana, made from a table: `python -m deploy.grafana.boards`."""
