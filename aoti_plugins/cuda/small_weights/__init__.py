"""Products with weights of 4 and 8 bits: ``docs/small-weights.md``.

``layout`` says how the runtime wants weights, ``rows_of_tiles`` is an embedding out of them. What
in a program such a weight is, is said for all devices in ``aoti_plugins/lowering/small_weights``.
"""
