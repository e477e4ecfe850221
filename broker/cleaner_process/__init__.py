"""The process beside the broker in which compacted logs are cleaned: the port and the real one."""
