"""What touches the insides of Inductor for more than one device.

Only this folder and ``inductor/`` of a device do. Each patch is in a file of its own and on one
list (``patching.py``), which says what it changes, why, and when it can go.
"""
