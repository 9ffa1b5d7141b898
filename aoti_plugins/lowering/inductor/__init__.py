"""What touches the insides of Inductor for more than one device.

Only this folder and ``inductor/`` of a device do. Each patch is a context manager in a file of its
own that says why it exists and when it can go; a test checks that the original is back afterwards.
"""
