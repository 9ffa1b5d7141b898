"""Hooks for aoti_plugins in Python. The op is in ``acme_python.op``, to be imported by models."""
