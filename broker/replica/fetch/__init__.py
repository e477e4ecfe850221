"""Copying from leaders and answering fetches: fetcher tasks, fetch sessions, offset reset."""
