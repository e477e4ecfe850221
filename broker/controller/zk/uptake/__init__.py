"""What the active controller takes up: brokers, and whatever tools and people write in znodes.

In: a term, and the node that changed. Out: transactions of the term. Never: an own idea of the
metadata; each function reads its node again (setting the watch anew) and brings the term to it.

One file per kind of node (chapter 5, section 10). Each function may be called at any time, also
when nothing changed: a new controller calls all of them (C-FO-08).
"""
