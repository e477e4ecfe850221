"""Principals of requests and their authorization."""
