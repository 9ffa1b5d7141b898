"""Weights of 4 and 8 bits, for all devices: ``docs/small-weights.md``.

``weight`` says what one is, ``sources`` what in a program stands for one; ``fields``, ``floats``
and ``gguf`` read what constants hold.
"""
