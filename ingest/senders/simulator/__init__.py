"""A deterministic simulator of a city: cameras, recognition servers, traffic, faults.

Entry point: `ingest.senders.simulator.simulator.serve`. What it produced, for the account:
`ingest.senders.simulator.ground_truth`.
"""
