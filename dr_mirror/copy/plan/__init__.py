"""Decisions of the copying: where a partition resumes, what is fetched and appended next. Pure."""
