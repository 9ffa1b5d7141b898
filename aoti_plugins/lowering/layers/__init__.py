"""Equal layers are one op while ExecuTorch has the program, and few while Inductor has it.

ExecuTorch's passes go through the whole program again and again, which takes longer with every
layer. ``repeated`` finds layers, ``folding`` puts an op in the place of those that follow on each
other, ``expanding`` puts back in the partition what they have become, and ``reader`` knows when
nobody would miss them. Then ``short_program`` leaves most of them out for Inductor, by what repeats
itself in the graph (``runs``); ``inductor/loops.py`` makes the code of the whole program.
"""
