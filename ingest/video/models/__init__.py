"""Models of detectors: read from the form they are published in, and turned into ONNX."""
