"""An ordinary target: Apache Kafka, or our broker as any client sees it."""
