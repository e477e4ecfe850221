"""The account: what was sent against what is stored, rejected, raised or still on its way.

`collect` reads the five sources, `balance` compares them, `report` prints the result, `drain` waits
until the pipeline is empty. Never: a write, a tolerance.
"""
