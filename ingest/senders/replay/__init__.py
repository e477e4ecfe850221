"""Sends recorded messages again: at their own pace, N times faster, or as fast as the bus takes."""
