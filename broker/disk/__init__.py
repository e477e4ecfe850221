"""Files behind one port: ``port.Disk`` and ``port.File``, with ``real.RealDisk`` for production."""
