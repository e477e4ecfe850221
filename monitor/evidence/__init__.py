"""The evidence of an alarm or of a way through the city, as one file that stands by itself."""
