"""The console: NiceGUI pages over the hub and the API's readers. Pages only wire; models are
elsewhere.
"""
