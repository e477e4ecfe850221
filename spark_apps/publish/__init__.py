"""What a driver writes to the bus, and the incidents it finds open there."""
