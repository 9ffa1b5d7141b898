"""Behind ``hooks.py``: finds plugins, checks them, orders and merges what they offer, asks them.

``manager.py`` has one typed call for each hook and is all that the rest of the package uses.
"""
