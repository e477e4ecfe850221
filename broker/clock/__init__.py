"""Time, random numbers and tasks behind one port: ``port.Clock``, with ``real.RealClock`` for
production."""
