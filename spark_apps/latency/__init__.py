"""Latency per minute, district and device."""
