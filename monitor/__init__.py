"""The watch over the bus: latency, quality and lag as pure models, the API and the console for
people.
"""
