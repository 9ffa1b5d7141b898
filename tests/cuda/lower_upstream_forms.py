"""Lower layers with weights of ExecuTorch's own CUDA backend; run in a process of its own.

What registers those weights changes how torchao's are multiplied in the whole process.

    python lower_upstream_forms.py FOLDER FORM ...
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from support import lower
from upstream_small_weights import K, small_weight

from aoti_plugins import CudaPartitioner

if __name__ == "__main__":
    for form in sys.argv[2:]:
        inputs = (torch.randn(1, K, dtype=torch.bfloat16),)
        layer = small_weight(form).layer
        program = lower(layer, inputs, partitioner=CudaPartitioner(target="h100"))
        (Path(sys.argv[1]) / f"{form}.pte").write_bytes(program.buffer)
