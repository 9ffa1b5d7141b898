"""Three random modules; as one, a kernel was moved in front of one that writes what it reads."""

from __future__ import annotations

from random_modules import RandomModule

MODULES = (
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
