"""Decisions of the mirror: lists, topics, where a partition resumes, what is copied next. Pure."""
