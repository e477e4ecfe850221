"""What is mirrored: topics and pictures, names at the target, how often it is compared. Pure."""
