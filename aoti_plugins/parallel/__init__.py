"""Tensor parallelism: one program for several ranks, each with its part of the weights.

``export_ranks`` exports, ``parallelize`` and ``export_dtensors`` help with it; lowering and running
are as for any program. docs/parallel.md says how.
"""

from aoti_plugins.parallel.dtensors import export_dtensors
from aoti_plugins.parallel.fake_ranks import as_rank, export_ranks
from aoti_plugins.parallel.groups import Group
from aoti_plugins.parallel.layers import parallelize
from aoti_plugins.parallel.merging import merge_ranks
from aoti_plugins.parallel.ops import Reduction
from aoti_plugins.parallel.rewriting import rewrite_collectives

__all__ = [
    "Group",
    "Reduction",
    "as_rank",
    "export_dtensors",
    "export_ranks",
    "merge_ranks",
    "parallelize",
    "rewrite_collectives",
]
