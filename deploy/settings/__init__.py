"""The settings of all packages, composed once from file, variables and flags.

Entry points: `composed.Settings`, `composed.load`. Never: a setting of its own; each package
declares its section.
"""
