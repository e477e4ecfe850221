"""What is in one picture: detectors behind one port."""
