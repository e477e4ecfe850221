"""What the packages of the domain read in the same way: kinds, plates, times, identities."""
