"""Products with weights of 4 and 8 bits: ``docs/small-weights.md``.

``layout`` says how the runtime wants weights, ``sources`` what in a program such a weight is,
``op`` is the product as an operator.
"""
