"""`./databus bench video`: how good tracks and synopses of films are."""
