"""What fuzzy rules find and cost: `./databus bench fuzzy`."""
