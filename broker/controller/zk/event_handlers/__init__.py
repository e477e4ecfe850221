"""The active controller's event handlers: brokers, and what tools and people write to znodes.

Each function reads its node again (setting the watch again) and applies the difference to the
controller context. One file per kind of node (chapter 5, section 10). Each function may be called
at any time, also when nothing changed: a new controller calls all of them (C-FO-08).
"""
