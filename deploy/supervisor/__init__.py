"""Processes kept alive on this machine: what one is, when it is started again, who holds a folder.

Entry points: `supervisor.Supervisor`, `supervise.supervise`, `child.Child`. Never: which processes
these are.
"""
