"""What brokers add to `bus.client.wire`: the channel to the controller, a limiter of warnings."""
