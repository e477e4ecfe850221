"""What has to happen to each topic at the target, and the named states it can be in. Pure."""
