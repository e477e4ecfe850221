"""The demos: the product with a living city, on one machine's broker, on a cluster of brokers, on a
city's servers, at two sites; at the end the account.

Entry points: `one_site.demo`, `two_sites.demo.demo_sites`, `folders.folder_of`. Never: knowledge of
how a package does its work.
"""
