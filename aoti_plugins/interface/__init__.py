"""How a method is called: names and structure of its arguments and of what it returns.

ExecuTorch's programs hold the structures as ``torch.export`` had them; what else it takes to call a
program like the module is in a compile spec (``docs/decisions/0059``), which lowering writes
(``aoti_plugins/lowering/interfaces.py``) and the runtime reads. Nothing here imports torch.
"""
