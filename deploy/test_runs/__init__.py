"""`databus test`: a run of pytest, what it draws, second runs, repeats beside load.

In: the words of the command line. Out: pytest's exit status; a summary is the
last line. Never: a test of its own.
"""
