# SPDX-License-Identifier: Apache-2.0
"""Golden models as PyTorch's exporter writes them: CASE(name, module, inputs, opset).  Expected outputs: the module in fp64."""
import zlib
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}


def f(*shape): return torch.from_numpy(np.random.default_rng(zlib.crc32(repr(shape).encode())).standard_normal(shape).astype(np.float32))


class Fn(nn.Module):
    """A function of its inputs, with sub-modules where given."""
    def __init__(self, fn, **mods):
        super().__init__()
        self.fn = fn
        for k, v in mods.items():
            setattr(self, k, v)

    def forward(self, *x):
        return self.fn(self, *x)


def CASE(name, module, inputs, *opsets, outputs=("y",), dynamic=None, fresh=False, **export):
    """inputs: name -> tensor; one golden file per opset; dynamic: input -> {axis: name} (default: axis 0 is "N");
    fresh: keep the initial weights."""
    for op in opsets:
        full = f"{name}_op{op}"
        assert full not in CASES, full
        CASES[full] = dict(module=module, inputs=inputs, opset=op, outputs=outputs, dynamic=dynamic, fresh=fresh, export=export, seed=zlib.crc32(name.encode()))


IMG = {0: "N", 2: "H", 3: "W"}
SEQ = {0: "N", 1: "T"}

CASE("torch_layernorm", nn.LayerNorm(8), {"x": f(2, 5, 8)}, 9, 13, 17, dynamic={"x": SEQ})
CASE("torch_layernorm_2axes", nn.LayerNorm((3, 4), elementwise_affine=False), {"x": f(2, 3, 4)}, 13, 17)
CASE("torch_gelu", Fn(lambda m, x: (F.gelu(x), F.gelu(x, approximate="tanh"))), {"x": f(3, 9)}, 11, 17, 20, outputs=("y", "z"))
CASE("torch_activations", Fn(lambda m, x: (F.silu(x), F.hardswish(x), F.hardsigmoid(x), F.relu6(x), F.hardtanh(x, -0.5, 0.7), F.leaky_relu(x), F.elu(x),
     F.softplus(x), F.mish(x), F.celu(x), F.glu(torch.cat([x, -x], -1)))), {"x": f(3, 9) * 3}, 13, 18, outputs=tuple("abcdefghijk"))
CASE("torch_split_chunk", Fn(lambda m, x: (*x.chunk(2, 1), *x.split([1, 3], 2))), {"x": f(2, 6, 4)}, 11, 13, 18, outputs=tuple("abcd"))
CASE("torch_squeeze", Fn(lambda m, x: (x.squeeze(1), x.unsqueeze(-1), x[:, 0, None])), {"x": f(2, 1, 3)}, 9, 13, outputs=tuple("abc"))
CASE("torch_reduce", Fn(lambda m, x: (x.mean(-1), x.sum((1, 2), keepdim=True), x.amax(1), x.mean(), x.norm(dim=2), x.var(1, unbiased=False), x.logsumexp(-1))),
     {"x": f(2, 3, 4)}, 11, 13, 18, outputs=tuple("abcdefg"))
CASE("torch_clamp", Fn(lambda m, x: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.2))), {"x": f(2, 5)}, 9, 11, 13, outputs=tuple("abc"))
CASE("torch_pad", Fn(lambda m, x: (F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 1), value=1.5), F.pad(x, (1, 2, 1, 0), mode="reflect"), F.pad(x, (2, 0, 0, 1), mode="replicate"), F.pad(x, (-1, 1)))),
     {"x": f(1, 2, 4, 5)}, 9, 13, outputs=tuple("abcde"))
for kind, args in dict(nearest={}, bilinear=dict(align_corners=False), bilinear_align=dict(align_corners=True), bicubic=dict(align_corners=False)).items():
    ops = (9, 11, 13, 18) if kind == "nearest" else (11, 17)
    CASE(f"torch_interpolate_{kind}", Fn(lambda m, x, k=kind, a=args: F.interpolate(x, scale_factor=2, mode=k.partition("_")[0], **a)), {"x": f(1, 2, 3, 4)}, *ops, dynamic={"x": IMG})
CASE("torch_interpolate_to_other", Fn(lambda m, x, z: F.interpolate(x, size=z.shape[-2:], mode="bilinear", align_corners=False) + z), {"x": f(1, 2, 3, 4), "z": f(1, 2, 7, 5)}, 11, 17,
     dynamic={"x": IMG, "z": {0: "N", 2: "H2", 3: "W2"}})
CASE("torch_slice", Fn(lambda m, x: (x[:, 1:], x[:, :-1, ::2], x[..., -2:], x.flip(1))), {"x": f(2, 4, 5)}, 11, 17, outputs=tuple("abcd"))
CASE("torch_slice_static", Fn(lambda m, x: (x[:, 1:], x[:, :-1], x[..., -2:])), {"x": f(2, 4, 5)}, 9, outputs=tuple("abc"))
CASE("torch_view_dynamic", Fn(lambda m, x: (x.view(x.size(0), x.size(1), -1).transpose(1, 2), x.reshape(-1, x.shape[-1]), x.flatten(1))), {"x": f(2, 3, 4, 5)}, 9, 11, 13, 17,
     outputs=tuple("abc"), dynamic={"x": IMG})
CASE("torch_expand_mask", Fn(lambda m, x: x.masked_fill(torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)[None], -1e4).softmax(-1)), {"x": f(2, 5, 5)}, 14, 17, dynamic={"x": {0: "N", 1: "T", 2: "T"}})
CASE("torch_arange_positions", Fn(lambda m, i: m.tok(i) + m.pos(torch.arange(i.size(1))[None].expand(i.size(0), -1)), tok=nn.Embedding(9, 6), pos=nn.Embedding(12, 6)),
     {"ids": torch.tensor([[1, 5, 0, 8], [2, 2, 7, 3]])}, 11, 13, 17, dynamic={"ids": SEQ})
CASE("torch_where_full", Fn(lambda m, x: torch.where(x > 0, x, torch.full_like(x, -2.0)) + torch.zeros(x.size(0), 1) + torch.ones_like(x).cumsum(1)), {"x": f(2, 4)}, 11, 17)
CASE("torch_batchnorm", nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()), {"x": f(2, 3, 6, 5)}, 9, 13, 17, dynamic={"x": IMG})
CASE("torch_batchnorm_folded", nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), {"x": f(2, 3, 6, 5)}, 13, training=torch.onnx.TrainingMode.EVAL, do_constant_folding=True)
torch.manual_seed(0)
# Fresh weights are equal, so the exporter shares them: running_var is an Identity of a trainable weight.
CASE("torch_batchnorm_fresh", nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)), {"x": f(2, 1, 4, 4)}, 17, fresh=True)
CASE("torch_batchnorm_1d", nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), {"x": f(3, 5)}, 11, 17)
CASE("torch_groupnorm", nn.GroupNorm(2, 4), {"x": f(2, 4, 3, 5)}, 9, 13, 17)
CASE("torch_groupnorm_dynamic", nn.GroupNorm(2, 4), {"x": f(2, 4, 3, 5)}, 17, dynamic={"x": IMG})
CASE("torch_instancenorm", nn.InstanceNorm2d(3, affine=True), {"x": f(2, 3, 4, 5)}, 11, 17)
CASE("torch_convtranspose", nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 2, 2, stride=2, groups=2)), {"x": f(1, 3, 4, 3)}, 9, 17, dynamic={"x": IMG})
CASE("torch_pools", Fn(lambda m, x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False), F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
     F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 1), x.mean((2, 3)))), {"x": f(1, 2, 7, 6)}, 11, 17, outputs=tuple("abcdefg"))
CASE("torch_pixelshuffle", nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(2)), {"x": f(1, 1, 4, 5)}, 9, 13, dynamic={"x": IMG})
CASE("torch_mha", Fn(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(8, 2, batch_first=True)), {"x": f(2, 5, 8)}, 14, dynamic={"x": SEQ})
CASE("torch_mha_cross_masked", Fn(lambda m, q, k, p: m.a(q, k, k, key_padding_mask=p), a=nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)),
     {"q": f(2, 3, 8), "k": f(2, 4, 6), "pad": torch.tensor([[False, False, False, True], [False, False, True, True]])}, 14, outputs=("y", "w"))
CASE("torch_sdpa_causal", Fn(lambda m, x: F.scaled_dot_product_attention(x, x, x, is_causal=True)), {"x": f(2, 2, 5, 4)}, 14, 17)
CASE("torch_encoder_layer", nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu", batch_first=True)), {"x": f(2, 5, 8)}, 14, 18, dynamic={"x": SEQ})
CASE("torch_encoder_prenorm", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, norm_first=True, batch_first=True), 1, norm=nn.LayerNorm(8), enable_nested_tensor=False), {"x": f(2, 4, 8)}, 17, dynamic={"x": SEQ})
CASE("torch_tied_weights", Fn(lambda m, i: F.linear(m.e(i), m.e.weight), e=nn.Embedding(9, 6)), {"ids": torch.tensor([[1, 5, 0, 8]])}, 13, dynamic={"ids": SEQ})
CASE("torch_se_block", Fn(lambda m, x: x * m.s(x), s=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1), nn.Hardsigmoid())), {"x": f(1, 4, 5, 5)}, 11, 17)
CASE("torch_initializers_as_inputs", nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 4 * 4, 3)), {"x": f(2, 1, 6, 6)}, 9, keep_initializers_as_inputs=True)
CASE("torch_dropout_train_export", nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 3)).train(), {"x": f(2, 4)}, 11, 13, training=torch.onnx.TrainingMode.PRESERVE)
CASE("torch_separable_conv", nn.Sequential(nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=2, dilation=2), nn.ZeroPad2d((0, 1, 1, 0)), nn.Conv2d(4, 2, (1, 3), padding="same")), {"x": f(1, 2, 7, 8)}, 17)
CASE("torch_conv1d_net", nn.Sequential(nn.Conv1d(3, 4, 5, stride=2, padding=2), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2), nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1)), {"x": f(2, 3, 17)}, 13, dynamic={"x": {0: "N", 2: "T"}})
CASE("torch_weight_norm", Fn(lambda m, x: F.linear(x, m.v.weight * (m.g.weight / m.v.weight.norm(dim=1, keepdim=True)), m.v.bias), v=nn.Linear(4, 3), g=nn.Linear(1, 3, bias=False)), {"x": f(2, 4)}, 13)
CASE("torch_rotary", Fn(lambda m, x: torch.cat([x[..., :2] * x[..., 2:].cos() - x[..., 2:].sin(), torch.stack([x[..., 0], -x[..., 1]], -1)], -1)), {"x": f(2, 3, 4)}, 13)
