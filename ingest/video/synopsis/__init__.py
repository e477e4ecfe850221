"""An hour in a minute: what moved in a film, shown together, each target with its true time."""
