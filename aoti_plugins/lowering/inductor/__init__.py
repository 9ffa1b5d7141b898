"""Everything that touches the insides of Inductor, and the only place that does.

Each patch is a context manager in a file of its own that says why it exists and when it can go; a
test checks that the original is back afterwards.
"""
