"""Random modules whose kernels were moved, each pack lowered as one."""

from __future__ import annotations

from random_modules import RandomModule

_WRITTEN_LATER = (
    RandomModule(
        8101,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state2", torch.zeros((4, 2), dtype=torch.float64))
    def forward(self, x0, x1, x2):
        v1 = F.scaled_dot_product_attention(x2, x2, x2.sin(), scale=0.3)
        self.state2.copy_(self.state2.roll(1, 0) + x0)
        v3 = self.state2.sum(0)
        v3.div_(2)
        v4 = F.kl_div(x0.log_softmax(-1), (0.5 * x0).softmax(-1), reduction='batchmean')
        v5 = v3.nan_to_num()
        v6 = v3 > 0
        v7 = v5 + v6
        v8 = F.interpolate(x2, size=(3, 5), mode='nearest-exact')
        v9 = torch.cat([v6, v6[:0]])
        v10, v11, = torch.meshgrid(v7, v6.to(v7.dtype), indexing='ij')
        v12 = v11.index_put((torch.tensor([0]),), v11[:1].flip(0))
        v13 = v11.cos()
        return (v8, v9, v10.contiguous(), v12, v13)
""",
        ("torch.randn((4, 2)).to(torch.float64)", "torch.randn(())", "torch.randn((2, 16, 4, 3))"),
    ),
    RandomModule(
        8103,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.GroupNorm(8, 8, dtype=torch.bfloat16)
    def forward(self, x0, x1, x2, x3):
        v2 = self.layer1(x1)
        v3 = torch.add(v2, x1, alpha=2)
        v4 = torch.clamp(v3, -x3.abs(), v3.abs())
        v5 = (v2.abs() + 0.3) ** (v2.tanh())
        v6 = torch.cat([v4.flatten(), v5.flatten()])
        v7 = v4 @ v4.transpose(-1, -2)
        v8 = v7.scatter_add(1, torch.tensor([5, 7]).view([1, -1, 1, 1]).expand([2, 2, 4, 4]),
            v5.narrow(1, 0, 2))
        v6[..., :] = v6[..., :] * 2
        v9 = v5.clone()
        v9[0:2] *= v5
        v10 = v3.cumsum(0)
        v11 = v9.sum(2, keepdim=True)
        return (v8, v10, v11)
""",
        (
            "torch.randint(-9, 10, (7, 4, 2, 1)).to(torch.int64)",
            "torch.randn((2, 8, 4, 17)).to(torch.bfloat16)",
            "torch.randint(-9, 10, (4, 16, 7)).to(torch.int64)",
            "torch.randn(())",
        ),
    ),
    RandomModule(
        8119,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer8 = nn.GroupNorm(1, 3)
    def forward(self, x0, x1):
        v1 = x0[-2:, 0:, None]
        v2 = v1.scatter(-2, torch.tensor([0]).view([1, 1, -1, 1]).expand([2, 3, 1, 17]), 1,
            reduce='add')
        v3 = v1.scatter(2, torch.tensor([0]).view([1, 1, -1, 1]).expand([2, 3, 1, 17]), 1,
            reduce='add')
        v4 = v3.tril(0)
        v5 = torch.rsub(v3, v2)
        v6 = v5[None, :2]
        v7 = torch.arange(0, 17 * 2, 2).to(v5.dtype)
        v9 = self.layer8(v5)
        v10 = torch.linspace(-1, 1, 17, dtype=torch.float32)
        v11 = v9.var((2, 3), correction=0, keepdim=False)
        v12 = v4.diagonal(1, -2, -1)
        return {'first': v6, 'others': [v7, v10, v11, v12, v5, v3]}
""",
        (
            "torch.randn((2, 3, 17))",
            "torch.randint(-9, 10, (5, 2, 4, 17)).to(torch.int64)"
            ".contiguous(memory_format=torch.channels_last)",
        ),
    ),
)

_READ_LATER = (
    RandomModule(
        7476,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state3", torch.zeros((1, 4, 1, 2), dtype=torch.float32))
        self.register_buffer("state8", torch.zeros((1, 4, 1, 2), dtype=torch.float32))
    def forward(self, x0, x1, x2, x3):
        v1 = x3.clone()
        v1[None, :3] = x3
        v2 = x3.clamp(-100, 100).to(torch.bool)
        self.state3[0] += v1[0]
        v4 = self.state3.clone()
        v5 = v2.clone()
        v5.unsqueeze_(0)
        v6 = v4 - v1
        v7 = F.interpolate(v6, size=(3, 5), mode='bilinear', align_corners=False)
        self.state8[0] += v4[0]
        v9 = self.state8.clone()
        v10 = F.scaled_dot_product_attention(x2, x2, x2.sin(), is_causal=True)
        return (v5, v7, v9, v10)
""",
        (
            "torch.randn(())",
            "torch.randn((2, 6))",
            "torch.randn((2, 4, 16))",
            "torch.randn((2, 4, 1, 1)).transpose(3, 0)",
        ),
    ),
)

_MADE_LATER = (
    RandomModule(
        7130,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x0):
        v1 = F.pad(x0, (0, 1, 2, -1), value=1.5)
        v1.index_fill_(0, torch.tensor([0]), 4)
        v2 = x0 <= 0.5
        v3 = v1[:1]
        v4 = v2[None, 2:3]
        v5 = v3.triu(-1)
        return (v4.flatten(), v5, v1)
""",
        ("torch.randn((1, 5, 2)).transpose(2, 0)",),
    ),
    RandomModule(
        7133,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(3, 8, bias=True, dtype=torch.float64)
        self.weight4 = nn.Parameter(torch.randint(-9, 10, (1, 7, 1)).to(torch.int32),
            requires_grad=False)
        self.layer6 = nn.Embedding(9, 6, padding_idx=0)
        self.layer19 = nn.Linear(3, 3)
        self.weight23 = nn.Parameter(torch.randn(3, 3, 2).to(torch.float32), requires_grad=False)
    def forward(self, x0, x1, x2):
        v2 = self.layer1(x0)
        v3 = x0.sum()
        v5 = torch.add(x1, self.weight4, alpha=2)
        v7 = self.layer6(x2.to(torch.int32) % 9)
        v8 = v3.deg2rad()
        v9 = F.scaled_dot_product_attention(x0, x0, x0.sin(), attn_mask=torch.ones(7, 7,
            dtype=torch.bool).tril(1))
        v10 = x1.cumsum(-2)
        v11, v12, v13, = v10.tensor_split(3, -3)
        v14 = torch.arange(3, dtype=torch.float32)[:, None] * (1.0 / 100.0 ** (torch.arange(3,
            dtype=torch.float32) / 3))
        v15 = torch.cat([v14, v14], -1)
        v16 = torch.cat([-v7[..., 3:], v7[..., :3]], -1)
        v17 = v7 * v15.cos() + v16 * v15.sin()
        v18 = torch.searchsorted(torch.tensor([-1.03, -0.21, 0.37, 1.11], dtype=torch.float32),
            v17, right=True)
        v20 = self.layer19(v14).softmax(-1)
        v21, v22, = v20.topk(2, -1)
        v24 = (torch.einsum('ni,nkio->nko', v14, self.weight23[v22]) * v21[..., None]).sum(1)
        return (v18, v20, v21, v22, v24)
""",
        (
            "torch.randn((3, 7, 3)).to(torch.float64)",
            "torch.randint(-9, 10, (7, 7, 1)).to(torch.int32)",
            "torch.randint(-9, 10, (2, 3)).to(torch.int8)",
        ),
    ),
    RandomModule(
        7134,
        """class Module(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x0):
        v1 = x0 <= x0
        v2 = v1.masked_fill(~v1, 0)
        v1.fill_(1)
        v3 = v2 & v2
        v4 = x0 // (x0.abs() % 7 + 1)
        v5 = v2.to(torch.int64)
        v6 = x0 * v5 + x0
        return (v3, v4, v6, v1.reshape(-1))
""",
        ("torch.randint(-9, 10, (4, 3)).to(torch.int64)",),
    ),
)

PACKS = {
    "in front of a write to what it reads": _WRITTEN_LATER,
    "behind a write to what it reads": _READ_LATER,
    "behind a write to what it makes": _MADE_LATER,
}
"""By where a kernel was moved."""
