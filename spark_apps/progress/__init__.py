"""What Spark tells of each batch, as metrics."""
