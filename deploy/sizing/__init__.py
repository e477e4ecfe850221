"""How many brokers, executors and region servers a city needs, from what the bench has measured.

Entry points: `size.size`, `costs.measured_costs`. Never: a measurement.
"""
