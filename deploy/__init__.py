"""The composition root: the one package that knows all others and puts them together.

What lives here: the command line, the composed settings, the supervisor, the demo and its
account, the set-up of bought software, the harness of the benches, and what installs the product.
Never: business rules, protocol, anything another package would want to import.
"""
