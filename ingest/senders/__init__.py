"""What sends records to the edge or the bus: the simulated city, recorded files, films."""
