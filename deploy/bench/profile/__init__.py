"""Where the time and the CPU of a batch go: `./databus bench ingest --profile`.

See deploy/bench/README.md.
"""
