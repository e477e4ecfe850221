"""One file per Kafka API; `registry` is the table of them."""
