"""Connections over our own codec: a pure one, and the asyncio and blocking clients around it."""
