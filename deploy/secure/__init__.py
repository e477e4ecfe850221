"""A closed site: certificates, accounts, who may do what, and the settings that name them.

Entry points: `init.init`, `account_settings.as_account`, `broker_keys.secured`. Never: a secret
on a command line, in an environment, in a log.
"""
