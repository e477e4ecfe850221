"""The product's processes on this machine: started together, stopped, shown.

Entry points: `up.up`, `status.roles_with_backlog`, `logs.show`. Never: how one role is started
(`deploy.roles`), how it is kept alive (`deploy.supervisor`).
"""
