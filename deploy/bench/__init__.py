"""`databus bench`: the figures of docs/benchmarks.md, measured, never asserted.

Entry point: `deploy.bench.run.run`. Comparisons run side by side with Apache Kafka on the same
cores, with the same client program in a process of its own; what counts is the ratio of medians.
Never: a number that was not measured in this run.
"""
