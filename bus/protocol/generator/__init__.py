"""The generator of the codec: schema tables in, flat Python functions out.

Runs when a developer says `python -m bus.protocol.generate`, never in a running process.
"""
