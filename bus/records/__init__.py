"""Record batches of the Kafka format v2: look at the header, check the CRC, build, read.

Never: I/O, a clock. The hot path uses `batch` only and never unpacks a record.
"""
