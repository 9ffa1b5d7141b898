"""Equal layers are one op while ExecuTorch has the program.

Its passes go through the whole program again and again, which takes longer with every layer.
``repeated`` finds layers, ``folding`` puts an op in the place of each, ``expanding`` puts back in
the partition what one layer has become, and ``reader`` knows when nobody would miss them.
"""
