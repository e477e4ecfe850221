"""RTSP 1.0 and RTP as a recorder speaks them. Pure."""
