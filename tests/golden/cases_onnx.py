# SPDX-License-Identifier: Apache-2.0
"""Golden models written by hand with onnx.helper: one per spelling that exporters use or have used.

Each case is CASE(name, opset, nodes, inputs, outputs, ...); the name ends in the opset that decides its spelling.
"""
import zlib
import numpy as np
from onnx import TensorProto as T, helper as H, numpy_helper as NH

CASES = {}
NP = {"float": T.FLOAT, "float16": T.FLOAT16, "double": T.DOUBLE, "int64": T.INT64, "int32": T.INT32,
      "int8": T.INT8, "uint8": T.UINT8, "bool": T.BOOL}


def N(op, ins, outs, **attrs):
    """A node; names are separated by spaces, "_" is an input that is left out."""
    fix = lambda s: ["" if x == "_" else x for x in s.split()]
    return H.make_node(op, fix(ins), fix(outs), **attrs)


def CASE(name, opset, nodes, inputs, outputs="y", inits=None, dims=None, ir=8, raw_inits=(), init_inputs=False, external=False):
    """inputs: name -> array; outputs: "y z:int64"; dims: name -> symbolic shape; raw_inits: finished TensorProtos."""
    def info(k, v):
        a = H.np_dtype_to_tensor_dtype(np.asarray(v).dtype)
        return H.make_tensor_value_info(k, a, (dims or {}).get(k, list(np.shape(v))))
    ts = [NH.from_array(np.asarray(v), k) for k, v in (inits or {}).items()] + list(raw_inits)
    ins = [info(k, v) for k, v in inputs.items()]
    if init_inputs:
        ins += [H.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in ts]
    typed = [o.rpartition(":") if o.rpartition(":")[2] in NP else ("", "", o) for o in outputs.split()]
    outs = [H.make_tensor_value_info(n or t, NP[t] if n else T.FLOAT, None) for n, _, t in typed]
    g = H.make_graph(nodes, name, ins, outs, ts)
    m = H.make_model(g, opset_imports=[H.make_opsetid("", opset)], ir_version=ir, producer_name="hone-golden")
    assert name not in CASES, name
    CASES[name] = dict(model=m, inputs={k: np.asarray(v) for k, v in inputs.items()}, external=external)


def f(*shape, seed="x", lo=None, hi=None):
    r = np.random.default_rng(zlib.crc32(repr((shape, seed)).encode()))
    return (r.standard_normal(shape) if lo is None else r.uniform(lo, hi, shape)).astype(np.float32)


def i64(*v): return np.array(v, np.int64)
def s64(v): return np.array(v, np.int64)
def s32f(v): return np.array(v, np.float32)


# ---------------------------------------------------------------- one attribute that became an input

X = f(2, 3, 4)
CASE("split_attr_op11", 11, [N("Split", "x", "a b c", axis=-1, split=[1, 2, 1])], {"x": X}, "a b c")
CASE("split_equal_op9", 9, [N("Split", "x", "a b", axis=2)], {"x": X}, "a b")
CASE("split_input_op13", 13, [N("Split", "x s", "a b", axis=1)], {"x": X}, "a b", {"s": i64(1, 2)})
CASE("split_num_outputs_op18", 18, [N("Split", "x", "a b c", axis=0, num_outputs=3)], {"x": f(7, 2)}, "a b c")
CASE("squeeze_unsqueeze_attr_op11", 11, [N("Squeeze", "x", "a", axes=[0, -1]), N("Unsqueeze", "a", "y", axes=[-1, 1]),
     N("Squeeze", "x", "z")], {"x": f(1, 3, 4, 1)}, "y z")
CASE("squeeze_unsqueeze_input_op13", 13, [N("Squeeze", "x s", "a"), N("Unsqueeze", "a u", "y"), N("Squeeze", "x", "z")],
     {"x": f(1, 3, 4, 1)}, "y z", {"s": i64(0, -1), "u": i64(1, -1)})
CASE("reduce_attr_op11", 11, [N("ReduceMean", "x", "a", axes=[-1]), N("ReduceSum", "x", "b", axes=[0, 2], keepdims=0),
     N("ReduceMax", "x", "c", axes=[1]), N("ReduceMin", "x", "d"), N("ReduceProd", "x", "e", axes=[-2], keepdims=0),
     N("ReduceL1", "x", "g", axes=[1]), N("ReduceL2", "x", "h", axes=[2]), N("ReduceSumSquare", "x", "i", axes=[0]),
     N("ReduceLogSumExp", "x", "j", axes=[2], keepdims=0)], {"x": X}, "a b c d e g h i j")
CASE("reduce_sum_input_op13", 13, [N("ReduceSum", "x ax", "a", keepdims=0), N("ReduceSum", "x", "b"),
     N("ReduceSum", "x none", "c", noop_with_empty_axes=1), N("ReduceMean", "x", "d", axes=[1, -1])], {"x": X}, "a b c d",
     {"ax": i64(-1, 0), "none": s64([])})
CASE("reduce_input_op18", 18, [N("ReduceMean", "x ax", "a"), N("ReduceMax", "x ax", "b", keepdims=0), N("ReduceMean", "x", "c"),
     N("ReduceMin", "x none", "d"), N("ReduceL2", "x ax", "e", noop_with_empty_axes=1)], {"x": X}, "a b c d e",
     {"ax": i64(-1), "none": s64([])})
CASE("clip_attr_op9", 9, [N("Clip", "x", "a", min=-0.5, max=0.75), N("Clip", "x", "b", min=0.0), N("Clip", "x", "c", max=0.0)],
     {"x": X}, "a b c")
CASE("clip_input_op11", 11, [N("Clip", "x lo hi", "a"), N("Clip", "x _ hi", "b"), N("Clip", "x lo", "c"), N("Clip", "x", "d")],
     {"x": X}, "a b c d", {"lo": s32f(-0.5), "hi": s32f(0.75)})
CASE("clip_int_op13", 13, [N("Clip", "x lo hi", "y")], {"x": i64(-5, 0, 3, 9)}, "y:int64", {"lo": s64(-1), "hi": s64(4)})
CASE("dropout_attr_op9", 9, [N("Dropout", "x", "y", ratio=0.3)], {"x": X})
CASE("dropout_input_op13", 13, [N("Dropout", "x r train", "y m")], {"x": X}, "y m:bool", {"r": s32f(0.3), "train": np.array(False)})
CASE("dropout_default_op22", 22, [N("Dropout", "x", "y")], {"x": X}, ir=10)
CASE("pad_attr_op9", 9, [N("Pad", "x", "a", pads=[0, 1, 0, 0, 2, 1], value=0.5), N("Pad", "x", "b", pads=[0, 1, 2, 0, 1, 1], mode="reflect"),
     N("Pad", "x", "c", pads=[1, 0, 2, 0, 0, 0], mode="edge")], {"x": X}, "a b c")
CASE("pad_input_op11", 11, [N("Pad", "x p v", "a"), N("Pad", "x p", "b"), N("Pad", "x q", "c", mode="reflect"), N("Pad", "x p", "d", mode="edge")],
     {"x": X}, "a b c d", {"p": i64(0, 1, -1, 0, 2, 1), "q": i64(0, 1, 2, 0, 1, 1), "v": s32f(-2.5)})
CASE("pad_axes_op18", 18, [N("Pad", "x p v ax", "a"), N("Pad", "x p _ ax", "b", mode="reflect")], {"x": X}, "a b",
     {"p": i64(1, 2, 0, 1), "ax": i64(-1, 1), "v": s32f(1.5)})
CASE("pad_wrap_op19", 19, [N("Pad", "x p", "y", mode="wrap")], {"x": X}, "y", {"p": i64(0, 1, 2, 1, 0, 1)}, ir=9)
CASE("slice_attr_op9", 9, [N("Slice", "x", "a", starts=[1], ends=[2**63 - 1], axes=[2]), N("Slice", "x", "b", starts=[0, -2], ends=[1, -1])],
     {"x": X}, "a b")
CASE("slice_input_op10", 10, [N("Slice", "x s e ax", "a"), N("Slice", "x s e", "b")], {"x": X}, "a b",
     {"s": i64(0, 1), "e": i64(2**63 - 1, 3), "ax": i64(-1, 1)})
CASE("slice_steps_op13", 13, [N("Slice", "x s e ax st", "a"), N("Slice", "x s1 e1 ax1 st1", "b"), N("Slice", "x s2 e2 _ st2", "c")], {"x": f(3, 5, 7)},
     "a b c", {"s": i64(-1, 0), "e": i64(-2**63, 100), "ax": i64(1, 2), "st": i64(-2, 3), "s1": np.array([4], np.int32),
     "e1": np.array([1], np.int32), "ax1": np.array([-2], np.int32), "st1": np.array([-1], np.int32),
     "s2": i64(0, 1, -3), "e2": i64(2, 1, 7), "st2": i64(1, 1, 1)})

# ---------------------------------------------------------------- what exporters spell out

LN = {"two": s32f(2), "eps": s32f(1e-5), "g": f(8, seed="g"), "b": f(8, seed="b")}
CASE("layernorm_mul_rsqrt_op13", 13, [      # as TensorFlow's converter writes it
     N("ReduceMean", "x", "m", axes=[2], keepdims=1), N("Sub", "x m", "d"), N("Mul", "d d", "sq"),
     N("ReduceMean", "sq", "v", axes=[2], keepdims=1), N("Add", "v eps", "ve"), N("Sqrt", "ve", "sd"), N("Reciprocal", "sd", "r"),
     N("Mul", "r g", "rg"), N("Mul", "x rg", "xs"), N("Mul", "m rg", "ms"), N("Sub", "b ms", "shift"), N("Add", "xs shift", "y")],
     {"x": f(2, 5, 8)}, "y", {k: LN[k] for k in ("eps", "g", "b")}, {"x": ["N", "T", 8]})
CASE("layernorm_reduce_input_op18", 18, [
     N("ReduceMean", "x ax", "m"), N("Sub", "x m", "d"), N("Pow", "d two", "sq"), N("ReduceMean", "sq ax", "v"), N("Add", "v eps", "ve"),
     N("Sqrt", "ve", "sd"), N("Div", "d sd", "n"), N("Mul", "n g", "ng"), N("Add", "ng b", "y")],
     {"x": f(2, 5, 8)}, "y", LN | {"ax": i64(-1)}, {"x": ["N", "T", 8]})
CASE("layernorm_node_op17", 17, [N("LayerNormalization", "x g b", "y m r", axis=1, epsilon=1e-3), N("LayerNormalization", "x g1", "z")],
     {"x": f(2, 3, 8)}, "y m r z", {"g": f(3, 8), "b": f(3, 8, seed="b"), "g1": f(8)})
CASE("rmsnorm_primitives_op13", 13, [N("Pow", "x two", "sq"), N("ReduceMean", "sq", "v", axes=[-1]), N("Add", "v eps", "ve"), N("Sqrt", "ve", "sd"),
     N("Reciprocal", "sd", "r"), N("Mul", "x r", "n"), N("Mul", "g n", "y")], {"x": f(2, 5, 8)}, "y", {k: LN[k] for k in ("two", "eps", "g")})
CASE("gelu_half_first_op13", 13, [N("Mul", "x half", "h"), N("Mul", "x is2", "s"), N("Erf", "s", "e"), N("Add", "one e", "p"), N("Mul", "h p", "y")],
     {"x": f(3, 9)}, "y", {"half": s32f(0.5), "is2": s32f(0.70710678), "one": s32f(1)})
CASE("gelu_div_half_last_op9", 9, [N("Div", "x s2", "s"), N("Erf", "s", "e"), N("Add", "e one", "p"), N("Mul", "x p", "xp"), N("Mul", "xp half", "y")],
     {"x": f(3, 9)}, "y", {"half": s32f(0.5), "s2": s32f(1.41421356), "one": s32f([1])})
CASE("gelu_tanh_op13", 13, [N("Pow", "x three", "c"), N("Mul", "c k", "ck"), N("Add", "x ck", "in"), N("Mul", "in s", "t0"), N("Tanh", "t0", "t"),
     N("Add", "t one", "p"), N("Mul", "x half", "h"), N("Mul", "h p", "y")], {"x": f(3, 9)}, "y",
     {"three": s32f(3), "k": s32f(0.044715), "s": s32f(0.7978845608), "one": s32f(1), "half": s32f(0.5)})
CASE("gelu_node_op20", 20, [N("Gelu", "x", "a"), N("Gelu", "x", "b", approximate="tanh")], {"x": f(3, 9)}, "a b", ir=9)
CASE("silu_mish_hardswish_op13", 13, [N("Sigmoid", "x", "s"), N("Mul", "x s", "a"), N("Softplus", "x", "sp"), N("Tanh", "sp", "t"), N("Mul", "x t", "b"),
     N("Add", "x three", "x3"), N("Clip", "x3 zero six", "c6"), N("Mul", "x c6", "xc"), N("Div", "xc six", "c"), N("HardSigmoid", "x", "hs", alpha=1 / 6),
     N("Mul", "x hs", "d")], {"x": f(3, 9, lo=-5, hi=5)}, "a b c d", {"three": s32f(3), "zero": s32f(0), "six": s32f(6)})
CASE("hardswish_mish_node_op18", 18, [N("HardSwish", "x", "a"), N("Mish", "x", "b")], {"x": f(3, 9, lo=-5, hi=5)}, "a b")
CASE("attention_spelled_op13", 13, [N("MatMul", "x wq", "q0"), N("MatMul", "x wk", "k0"), N("MatMul", "x wv", "v0"),
     *[n for c in "qkv" for n in (N("Reshape", f"{c}0 hs", f"{c}1"), N("Transpose", f"{c}1", f"{c}", perm=[0, 2, 3, 1] if c == "k" else [0, 2, 1, 3]))],
     N("MatMul", "q k", "s0"), N("Div", "s0 scale", "s1"), N("Where", "mask s1 neg", "s2"), N("Softmax", "s2", "p", axis=-1), N("MatMul", "p v", "o"),
     N("Transpose", "o", "ot", perm=[0, 2, 1, 3]), N("Reshape", "ot os", "y")], {"x": f(2, 5, 8)}, "y",
     {"wq": f(8, 8, seed=1), "wk": f(8, 8, seed=2), "wv": f(8, 8, seed=3), "hs": i64(0, 0, 2, 4), "os": i64(0, 0, -1), "scale": s32f(2),
      "mask": np.tril(np.ones((5, 5), bool)), "neg": s32f(-1e9)}, {"x": ["N", 5, 8]})
CASE("rotary_op17", 17, [N("Slice", "x z h ax", "a"), N("Slice", "x h e ax", "b"), N("Neg", "b", "nb"), N("Concat", "nb a", "rot", axis=-1),
     N("Mul", "x cos", "xc"), N("Mul", "rot sin", "rs"), N("Add", "xc rs", "y")], {"x": f(1, 2, 5, 8)}, "y",
     {"z": i64(0), "h": i64(4), "e": i64(2**63 - 1), "ax": i64(-1), "cos": f(5, 8, seed="c"), "sin": f(5, 8, seed="s")})

# ---------------------------------------------------------------- shapes

CASE("dynamic_reshape_op13", 13, [N("Shape", "x", "s"), N("Gather", "s i0", "n", axis=0), N("Gather", "s i1", "t", axis=0),
     N("Unsqueeze", "n z", "nu"), N("Unsqueeze", "t z", "tu"), N("Mul", "nu tu", "nt"), N("Concat", "nt m1", "shape", axis=0), N("Reshape", "x shape", "y")],
     {"x": f(2, 3, 4, 5)}, "y", {"i0": s64(0), "i1": s64(1), "z": i64(0), "m1": i64(-1)}, {"x": ["N", "T", 4, 5]})
CASE("dynamic_reshape_op9", 9, [N("Shape", "x", "s"), N("Slice", "s", "n", axes=[0], starts=[0], ends=[1]), N("Constant", "", "m1", value=NH.from_array(i64(-1))),
     N("Concat", "n m1", "shape", axis=0), N("Reshape", "x shape", "y"), N("Gather", "s i", "w"), N("Cast", "w", "wf", to=T.FLOAT), N("Div", "y wf", "z")],
     {"x": f(2, 3, 4)}, "y z", {"i": s64(-1)}, {"x": ["N", "C", "L"]})
CASE("reshape_zero_op14", 14, [N("Reshape", "x a", "y"), N("Reshape", "x b", "z"), N("Reshape", "e c", "w", allowzero=1)],
     {"x": f(2, 3, 4), "e": f(0, 3)}, "y z w", {"a": i64(0, -1), "b": i64(-1, 0, 2), "c": i64(3, 0)})
CASE("flatten_transpose_concat_op13", 13, [N("Flatten", "x", "a"), N("Flatten", "x", "b", axis=0), N("Flatten", "x", "c", axis=-1), N("Transpose", "x", "d"),
     N("Concat", "x x", "e", axis=-2), N("Identity", "x", "g")], {"x": X}, "a b c d e g")
CASE("shape_start_end_op15", 15, [N("Shape", "x", "a", start=1), N("Shape", "x", "b", start=-3, end=-1), N("Size", "x", "c")], {"x": X}, "a:int64 b:int64 c:int64",
     dims={"x": ["N", "C", 4]})
CASE("expand_where_range_op13", 13, [N("Shape", "x", "s"), N("Gather", "s one", "t"), N("Range", "zero t one", "r"), N("Unsqueeze", "r ax", "rc"),
     N("Less", "rc r", "above"), N("Squeeze", "s2 ax", "dummy"), N("ConstantOfShape", "tt", "ninf", value=NH.from_array(np.array([-1e4], np.float32))),
     N("Cast", "dummy", "zf", to=T.FLOAT), N("Where", "above ninf zf", "bias"), N("Expand", "bias s3", "be"), N("Add", "x be", "y")],
     {"x": f(2, 5, 5)}, "y", {"zero": s64(0), "one": s64(1), "ax": i64(1), "s2": np.zeros((1, 1), np.int64), "tt": i64(5, 5), "s3": i64(2, 1, 1)}, {"x": ["N", 5, 5]})
CASE("constant_of_shape_op9", 9, [N("ConstantOfShape", "s", "a"), N("ConstantOfShape", "s", "b", value=NH.from_array(i64(7))), N("ConstantOfShape", "e", "c"),
     N("Add", "x c", "y")], {"x": f(2)}, "a b:int64 y", {"s": i64(2, 3), "e": s64([])})
CASE("range_int_float_op11", 11, [N("Range", "a b c", "y"), N("Range", "d e g", "z")], {"b": s64(9)}, "y:int64 z",
     {"a": s64(2), "c": s64(3), "d": s32f(1), "e": s32f(-1), "g": s32f(-0.5)})
CASE("tile_trilu_cumsum_op14", 14, [N("Tile", "x r", "a"), N("Trilu", "x", "b"), N("Trilu", "x k", "c", upper=0), N("CumSum", "x one", "d"),
     N("CumSum", "x one", "e", exclusive=1, reverse=1)], {"x": f(4, 4)}, "a b c d e", {"r": i64(2, 3), "k": s64(-1), "one": s64(1)})
CASE("depth_to_space_op13", 13, [N("DepthToSpace", "x", "a", blocksize=2), N("DepthToSpace", "x", "b", blocksize=2, mode="CRD"), N("SpaceToDepth", "x", "c", blocksize=2)],
     {"x": f(1, 8, 2, 4)}, "a b c")
CASE("argmax_op13", 13, [N("ArgMax", "x", "a", axis=-1, keepdims=0), N("ArgMin", "x", "b", axis=1), N("ArgMax", "e", "c", axis=1, select_last_index=1)],
     {"x": X, "e": s32f([[1, 3, 3], [2, 2, 0]])}, "a:int64 b:int64 c:int64")
CASE("gather_op13", 13, [N("Gather", "x i", "a", axis=1), N("GatherElements", "x e", "b", axis=-1), N("GatherND", "x n", "c"), N("GatherND", "x bn", "d", batch_dims=1),
     N("Gather", "x s", "g", axis=-1)], {"x": X}, "a b c d g", {"i": s64([[0, -1], [2, 1]]), "e": s64(np.arange(12).reshape(2, 3, 2) % 7 - 3),
     "n": s64([[0, -1], [1, 0]]), "bn": s64([[2], [0]]), "s": np.array(-2, np.int32)})
CASE("scatter_op18", 18, [N("ScatterElements", "x i u", "a", axis=1), N("ScatterElements", "x i u", "b", axis=1, reduction="add"),
     N("ScatterND", "x n w", "c"), N("ScatterND", "x n w", "d", reduction="add")], {"x": X, "u": f(2, 2, 4)}, "a b c d",
     {"i": s64(np.arange(16).reshape(2, 2, 4) % 3 * [[[1], [-1]]]), "n": s64([[0, 1], [1, 2]]), "w": f(2, 4)})
CASE("embedding_int32_op11", 11, [N("Gather", "w i", "y")], {"i": np.array([[0, 3, 2], [1, 1, 0]], np.int32)}, "y", {"w": f(4, 5)}, {"i": ["N", "T"]})
CASE("one_hot_op11", 11, [N("OneHot", "i d v", "a"), N("OneHot", "i d v", "b", axis=0)], {"i": i64(1, 0, -1)}, "a b", {"d": s64(4), "v": s32f([-1, 2])})

# ---------------------------------------------------------------- layers

CASE("batchnorm_op9", 9, [N("BatchNormalization", "x g b m v", "y", epsilon=1e-3, momentum=0.8)], {"x": f(2, 3, 4, 5)}, "y",
     {"g": f(3), "b": f(3, seed=1), "m": f(3, seed=2), "v": f(3, lo=0.5, hi=2)}, {"x": ["N", 3, "H", "W"]})
CASE("batchnorm_1d_op15", 15, [N("BatchNormalization", "x g b m v", "y", training_mode=0), N("BatchNormalization", "z g b m v", "w")],
     {"x": f(4, 3), "z": f(2, 3, 7)}, "y w", {"g": f(3), "b": f(3, seed=1), "m": f(3, seed=2), "v": f(3, lo=0.5, hi=2)})
CASE("instancenorm_op9", 9, [N("InstanceNormalization", "x g b", "y", epsilon=1e-4)], {"x": f(2, 3, 4, 5)}, "y", {"g": f(3), "b": f(3, seed=1)})
CASE("groupnorm_node_op21", 21, [N("GroupNormalization", "x g b", "y", num_groups=2)], {"x": f(2, 4, 3, 3)}, "y", {"g": f(4), "b": f(4, seed=1)}, ir=10)
IM = f(1, 2, 6, 7)
CASE("conv_auto_pad_op11", 11, [N("Conv", "x w", "a", auto_pad="SAME_UPPER", strides=[2, 2]), N("Conv", "x w b", "b2", auto_pad="SAME_LOWER", strides=[2, 2]),
     N("Conv", "x w", "c", auto_pad="VALID"), N("Conv", "x w", "d", pads=[0, 1, 2, 0], dilations=[1, 2])], {"x": IM}, "a b2 c d", {"w": f(3, 2, 3, 2), "b": f(3)})
CASE("conv_group_depthwise_op11", 11, [N("Conv", "x w b", "a", group=4, pads=[1, 1, 1, 1]), N("Conv", "x v", "c", group=2, strides=[1, 2], kernel_shape=[2, 3])],
     {"x": f(2, 4, 5, 6)}, "a c", {"w": f(8, 1, 3, 3), "b": f(8), "v": f(6, 2, 2, 3)}, {"x": ["N", 4, "H", "W"]})
CASE("conv_1d_op13", 13, [N("Conv", "x w b", "y", strides=[2], pads=[2, 1], dilations=[2])], {"x": f(2, 3, 11)}, "y", {"w": f(4, 3, 3), "b": f(4)}, {"x": ["N", 3, "T"]})
CASE("conv_weight_computed_op13", 13, [N("Mul", "v s", "w"), N("Conv", "x w", "y")], {"x": IM}, "y", {"v": f(3, 2, 3, 2), "s": f(3, 1, 1, 1)})
CASE("convtranspose_op11", 11, [N("ConvTranspose", "x w b", "a", strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2]), N("ConvTranspose", "x v", "c", group=2, dilations=[2, 1]),
     N("ConvTranspose", "x w", "d", strides=[2, 2], output_shape=[11, 13]), N("ConvTranspose", "x w", "e", strides=[2, 2], auto_pad="SAME_UPPER")],
     {"x": f(1, 2, 5, 6)}, "a c d e", {"w": f(2, 3, 3, 4), "b": f(3), "v": f(2, 2, 2, 3)})
CASE("convtranspose_1d_op11", 11, [N("ConvTranspose", "x w", "y", strides=[2], output_padding=[1], pads=[1, 1])], {"x": f(2, 3, 5)}, "y", {"w": f(3, 4, 3)})
CASE("avgpool_op11", 11, [N("AveragePool", "x", "a", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
     N("AveragePool", "x", "b", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], count_include_pad=1),
     N("AveragePool", "x", "c", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), N("AveragePool", "x", "d", kernel_shape=[2, 2], auto_pad="SAME_LOWER")],
     {"x": IM}, "a b c d")
CASE("avgpool_ceil_pad_op19", 19, [N("AveragePool", "x", "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1),
     N("AveragePool", "x", "b", kernel_shape=[2, 2], dilations=[2, 2])], {"x": f(1, 2, 6, 8)}, "a b", ir=9)
CASE("maxpool_op12", 12, [N("MaxPool", "x", "a", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]), N("MaxPool", "x", "b", kernel_shape=[2, 2], dilations=[2, 3]),
     N("MaxPool", "x", "c", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), N("MaxPool", "x", "d", kernel_shape=[2, 2], auto_pad="SAME_UPPER", strides=[2, 2])],
     {"x": IM}, "a b c d")
CASE("pool_1d_global_op9", 9, [N("MaxPool", "x", "a", kernel_shape=[3], strides=[2], pads=[1, 1]), N("AveragePool", "x", "b", kernel_shape=[2]),
     N("GlobalAveragePool", "z", "c"), N("GlobalMaxPool", "z", "d")], {"x": f(2, 3, 8), "z": f(2, 3, 4, 5)}, "a b c d")
CASE("gemm_op9", 9, [N("Gemm", "x w b", "a", transB=1), N("Gemm", "x v c", "d", alpha=0.5, beta=2.0), N("Gemm", "t w s", "e", transA=1, transB=1)],
     {"x": f(3, 4), "t": f(4, 3)}, "a d e", {"w": f(5, 4), "b": f(5), "v": f(4, 5), "c": f(3, 1), "s": s32f([0.25])})
CASE("gemm_no_bias_op13", 13, [N("Gemm", "x w", "y", alpha=2.0, transB=1)], {"x": f(3, 4)}, "y", {"w": f(5, 4)})
CASE("matmul_op13", 13, [N("MatMul", "x w", "a"), N("MatMul", "x v", "b"), N("MatMul", "u x", "c"), N("MatMul", "v v", "d"), N("MatMul", "p q", "e")],
     {"x": f(2, 3, 4), "p": f(2, 1, 3, 4), "q": f(5, 4, 2)}, "a b c d e", {"w": f(4, 5), "v": f(4), "u": f(3)}, {"x": ["N", 3, 4]})
CASE("softmax_flat_op11", 11, [N("Softmax", "x", "a"), N("Softmax", "x", "b", axis=2), N("LogSoftmax", "x", "c", axis=0), N("Softmax", "x", "d", axis=-1)],
     {"x": X}, "a b c d")      # before opset 13 all axes from `axis` on are one
CASE("softmax_op13", 13, [N("Softmax", "x", "a"), N("Softmax", "x", "b", axis=1), N("LogSoftmax", "x", "c", axis=0)], {"x": X}, "a b c")

# ---------------------------------------------------------------- resize

R = f(1, 2, 3, 4)
SC = {"sc": s32f([1, 1, 2, 1.5])}
CASE("upsample_op9", 9, [N("Upsample", "x sc", "a"), N("Upsample", "x s2", "b", mode="linear")], {"x": R}, "a b", {"sc": s32f([1, 1, 2, 3]), "s2": s32f([1, 1, 2, 2])})
CASE("resize_op10", 10, [N("Resize", "x sc", "y", mode="nearest")], {"x": R}, "y", {"sc": s32f([1, 1, 2, 3])})
CASE("resize_nearest_op11", 11, [N("Resize", "x roi sc", "a", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
     N("Resize", "x roi sc", "b"), N("Resize", "x roi sc", "c", nearest_mode="ceil"), N("Resize", "x roi sc", "d", nearest_mode="round_prefer_ceil",
     coordinate_transformation_mode="align_corners")], {"x": R}, "a b c d", {"roi": s32f([]), **SC})
CASE("resize_linear_op11", 11, [N("Resize", "x roi none sz", "a", mode="linear", coordinate_transformation_mode=m) if i == 0 else
     N("Resize", "x roi sc", "bcd"[i - 1], mode="linear", coordinate_transformation_mode=m) for i, m in
     enumerate(["pytorch_half_pixel", "half_pixel", "align_corners", "asymmetric"])], {"x": R}, "a b c d",
     {"roi": s32f([]), "none": s32f([]), "sz": i64(1, 2, 1, 7), **SC})
CASE("resize_cubic_op13", 13, [N("Resize", "x _ sc", "a", mode="cubic"), N("Resize", "x _ _ sz", "b", mode="cubic", cubic_coeff_a=-0.5, coordinate_transformation_mode="align_corners"),
     N("Resize", "x _ sc", "c", mode="cubic", exclude_outside=1)], {"x": R}, "a b c", {"sz": i64(1, 2, 5, 6), **SC})
CASE("resize_axes_op18", 18, [N("Resize", "x _ sc", "a", mode="linear", axes=[2, 3]), N("Resize", "x _ _ sz", "b", axes=[2, 3])], {"x": R}, "a b",
     {"sc": s32f([2, 1.5]), "sz": i64(8, 5)})
CASE("resize_aspect_op18", 18, [N("Resize", "x _ _ sq", "a", axes=[2, 3], mode="linear", keep_aspect_ratio_policy="not_larger"),
     N("Resize", "x _ _ sq", "b", axes=[2, 3], keep_aspect_ratio_policy="not_smaller")], {"x": R}, "a b", {"sq": i64(6, 7)})
CASE("resize_down_op13", 13, [N("Resize", "x _ sc", "a", mode="linear"), N("Resize", "x _ sc", "b", mode="nearest"), N("Resize", "x _ _ sz", "c", mode="linear")],
     {"x": f(1, 1, 6, 8)}, "a b c", {"sc": s32f([1, 1, 0.5, 0.6]), "sz": i64(1, 1, 3, 5)})

# ---------------------------------------------------------------- elementwise

UNARY = ("Abs Neg Exp Log Sqrt Reciprocal Floor Ceil Round Sign Sin Cos Tan Atan Sinh Cosh Tanh Sigmoid Erf Relu Softplus Softsign").split()
CASE("unary_op13", 13, [N(op, "p" if op in ("Log", "Sqrt", "Reciprocal") else "x", op.lower()) for op in UNARY],
     {"x": s32f([-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5]), "p": f(7, lo=0.1, hi=3)}, " ".join(UNARY).lower())
CASE("activations_op11", 11, [N("LeakyRelu", "x", "a", alpha=0.2), N("LeakyRelu", "x", "b"), N("Elu", "x", "c", alpha=1.5), N("Selu", "x", "d"),
     N("HardSigmoid", "x", "e"), N("ThresholdedRelu", "x", "g", alpha=0.5), N("PRelu", "x s", "h"), N("PRelu", "x t", "i")],
     {"x": f(2, 3, 4, seed="act") * 3}, "a b c d e g h i", {"s": f(3, 1), "t": s32f([0.1])})
CASE("binary_broadcast_op9", 9, [N("Add", "x y", "a"), N("Sub", "x r", "b"), N("Mul", "y r", "c"), N("Div", "s x", "d"), N("Pow", "p e", "g"), N("Max", "x y s", "h"),
     N("Min", "x y", "i"), N("Sum", "x y r", "j"), N("Mean", "x r", "k")], {"x": X, "y": f(3, 1)}, "a b c d g h i j k",
     {"r": f(4, seed="r"), "s": s32f(0.5), "p": f(2, 1, 4, lo=0.1, hi=2), "e": s32f([[2.5], [-1]])})
CASE("binary_int_op13", 13, [N("Add", "x y", "a"), N("Mul", "x y", "b"), N("Div", "x y", "c"), N("Mod", "x y", "d"), N("Mod", "x y", "e", fmod=1), N("Pow", "g x3", "h"), N("Sub", "x y", "i"),
     N("Neg", "x", "j"), N("Abs", "x", "k"), N("Max", "x y", "l")], {"x": i64(7, -7, 9, -9), "y": i64(2, 2, -4, -4)}, " ".join(c + ":int64" for c in "abcde") + " h i:int64 j:int64 k:int64 l:int64",
     {"g": s32f([1.5, -2]).reshape(2, 1), "x3": i64(0, 1, 2, 3)})
CASE("compare_logic_op16", 16, [N("Equal", "x y", "a"), N("Less", "x y", "b"), N("Greater", "x y", "c"), N("LessOrEqual", "x y", "d"), N("GreaterOrEqual", "x y", "e"), N("Not", "a", "g"),
     N("And", "b g", "h"), N("Or", "a b", "i"), N("Xor", "d e", "j"), N("Where", "b x y", "k"), N("IsNaN", "n", "l"), N("Equal", "u v", "m")],
     {"x": s32f([[1, 2, 3]]), "y": s32f([[2], [3]]), "n": s32f([0, np.nan, np.inf])}, " ".join(c + ":bool" for c in "abcdeghij") + " k l:bool m:bool",
     {"u": i64(1, 2), "v": i64(1, 3)})
CASE("cast_chain_op13", 13, [N("Cast", "x", "i", to=T.INT64), N("Cast", "i", "i3", to=T.INT32), N("Cast", "i3", "d", to=T.DOUBLE), N("Cast", "d", "h", to=T.FLOAT16),
     N("Cast", "h", "y", to=T.FLOAT), N("Cast", "x", "b", to=T.BOOL), N("Cast", "b", "bf", to=T.FLOAT), N("Cast", "x", "xh", to=T.FLOAT16), N("Cast", "xh", "z", to=T.FLOAT),
     N("Cast", "b", "u", to=T.UINT8)], {"x": s32f([-2.7, -0.5, 0, 0.3, 1.9, 1000.7])}, "i:int64 i3:int32 d:double h:float16 y bf z u:uint8")
CASE("castlike_op15", 15, [N("CastLike", "x i", "y")], {"x": s32f([-2.7, 0.3, 1.9])}, "y:int64", {"i": s64(0)})

# ---------------------------------------------------------------- the file itself

CASE("constant_values_op13", 13, [N("Constant", "", "a", value=NH.from_array(f(2, 1))), N("Constant", "", "b", value_float=0.5), N("Constant", "", "c", value_floats=[1.0, 2.0, 3.0]),
     N("Constant", "", "d", value_int=2), N("Constant", "", "e", value_ints=[3, 2]), N("Add", "x a", "x1"), N("Mul", "x1 b", "x2"), N("Add", "x2 c", "x3"),
     N("Cast", "d", "df", to=T.FLOAT), N("Pow", "x3 df", "x4"), N("Reshape", "x4 e", "y")], {"x": f(2, 3)})
CASE("initializers_are_inputs_ir3_op9", 9, [N("Gemm", "x w b", "h", transB=1), N("Relu", "h", "y")], {"x": f(3, 4)}, "y", {"w": f(5, 4), "b": f(5)},
     {"x": ["N", 4]}, ir=3, init_inputs=True)
def typed(name, t, dims, vals): return H.make_tensor(name, t, dims, vals)
CASE("typed_data_fields_op13", 13, [N("Add", "x ff", "a"), *[N("Cast", k, k + "f", to=T.FLOAT) for k in "dhuiblzk"], N("Sum", "a df hf uf if bf lf zf", "s"), N("Concat", "s kf", "y", axis=0)],
     {"x": f(3)}, "y", raw_inits=[typed("ff", T.FLOAT, [3], [1.5, -2.25, 3.0]), typed("d", T.DOUBLE, [1], [0.125]), typed("h", T.FLOAT16, [3], [0.5, -1.5, 2.0]), typed("u", T.UINT8, [3], [0, 128, 255]),
     typed("i", T.INT32, [], [-70000]), typed("b", T.BOOL, [3], [True, False, True]), typed("l", T.INT64, [3], [1, -1, 2]), typed("z", T.INT8, [3], [-128, -1, 127]), typed("k", T.FLOAT, [0], [])])
CASE("float16_model_op17", 17, [N("Cast", "x", "xh", to=T.FLOAT16), N("MatMul", "xh w", "m"), N("Add", "m b", "h"), N("Relu", "h", "r"), N("Cast", "r", "y", to=T.FLOAT)],
     {"x": f(3, 4)}, "y", {"w": f(4, 5).astype(np.float16), "b": f(5).astype(np.float16)}, {"x": ["N", 4]})
CASE("double_model_op13", 13, [N("Gemm", "x w b", "h"), N("Tanh", "h", "y")], {"x": f(3, 4).astype(np.float64)}, "y:double", {"w": f(4, 5).astype(np.float64), "b": f(5).astype(np.float64)})
CASE("outputs_shared_op13", 13, [N("Relu", "x", "h"), N("Add", "h c", "y"), N("Identity", "x", "copy"), N("Identity", "c", "const")], {"x": f(2, 3), "unused": f(1)},
     "h y copy const", {"c": f(3), "never": f(2)})
CASE("odd_names_op13", 13, [H.make_node("Relu", ["serving_default_x:0"], ["/layer.0/act/Relu_output_0"], name="/layer.0/act/Relu"),
     H.make_node("Add", ["/layer.0/act/Relu_output_0", "onnx::Add_7"], ["StatefulPartitionedCall:0"], name="")], {"serving_default_x:0": f(2, 3)},
     "StatefulPartitionedCall:0", {"onnx::Add_7": f(3)})
CASE("external_data_op17", 17, [N("Gemm", "x w1 b1", "h", transB=1), N("Relu", "h", "r"), N("Gemm", "r w2 b2", "y", transB=1)], {"x": f(3, 16)}, "y",
     {"w1": f(12, 16), "b1": f(12), "w2": f(4, 12), "b2": f(4)}, {"x": ["N", 16]}, external=True)
CASE("cnn_op22", 22, [N("Conv", "x w b", "c", pads=[1, 1, 1, 1]), N("BatchNormalization", "c g b m v", "n"), N("HardSwish", "n", "r"), N("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
     N("GlobalAveragePool", "p", "q"), N("Flatten", "q", "t"), N("Dropout", "t ratio", "dr"), N("Gemm", "dr fw fb", "y", transB=1)], {"x": f(2, 3, 8, 8)}, "y",
     {"w": f(4, 3, 3, 3), "b": f(4), "g": f(4, seed=1), "m": f(4, seed=2), "v": f(4, lo=0.5, hi=2), "ratio": s32f(0.2), "fw": f(5, 4), "fb": f(5)}, {"x": ["N", 3, 8, 8]}, ir=10)


# ---------------------------------------------------------------- weights as Constant nodes (Paddle)

def K(name, v): return H.make_node("Constant", [], [name], value=NH.from_array(np.asarray(v), name))
CASE("weights_in_nodes_op11", 11, [K("conv.w", f(4, 3, 3, 3, seed="c")), K("bn.scale", f(4, lo=0.5, hi=2)), K("bn.bias", f(4)),
     K("bn.mean", f(4, seed="m")), K("bn.var", f(4, lo=0.5, hi=2, seed="v")), K("gain", f(4, 1, 1, seed="g")), N("Conv", "x conv.w", "a", pads=[1, 1, 1, 1]),
     N("BatchNormalization", "a bn.scale bn.bias bn.mean bn.var", "b"), N("Mul", "b gain", "y")], {"x": f(1, 3, 5, 5)},
     dims={"x": ["N", 3, "H", "W"]})


# ---------------------------------------------------------------- control flow

def G(name, nodes, ins, outs, inits=None):
    """A body. ins: "x i:int64[]" (without a shape, or a scalar); outs likewise."""
    def info(s):
        n, _, t = s.partition(":")
        return H.make_tensor_value_info(n, NP[t.removesuffix("[]") or "float"], [] if t.endswith("[]") else None)
    return H.make_graph(nodes, name, [info(s) for s in ins.split()], [info(s) for s in outs.split()],
                        [NH.from_array(np.asarray(v), k) for k, v in (inits or {}).items()])


W = f(4, 3, seed="if")
BRANCHES = dict(then_branch=G("yes", [N("MatMul", "x w", "a1"), N("Add", "a1 yes_b", "y1")], "", "y1", {"yes_b": f(3, seed="b")}),
                else_branch=G("no", [N("ReduceMean", "x", "m", axes=[1], keepdims=1), N("Mul", "m k", "y2")], "", "y2"))
for taken in (1, -1):
    CASE(f"if_{'then' if taken > 0 else 'else'}_op13", 13, [N("ReduceSum", "x", "s", keepdims=0), N("Greater", "s zero", "c"),
         N("If", "c", "y", **BRANCHES), N("Neg", "y", "z")], {"x": np.abs(f(2, 4)) * np.float32(taken)}, "y z",
         {"w": W, "k": s32f([1, 2, 3]), "zero": s32f(0)})
CASE("if_two_names_op13", 13, [N("Identity", "x", "again"), N("ReduceSum", "x", "s", keepdims=0), N("Greater", "s zero", "c"),
     N("If", "c", "y", then_branch=G("yes", [N("Add", "x again", "y1")], "", "y1"),
       else_branch=G("no", [N("Mul", "again x", "y2")], "", "y2"))], {"x": np.abs(f(2, 4))}, "y", {"zero": s32f(0)})
CASE("loop_counted_op13", 13, [N("Loop", "n _ x", "last all", body=G("step", [
         N("Cast", "i", "f", to=T.FLOAT), N("Mul", "v f", "a"), N("Add", "a w", "next"), N("Identity", "go", "go_on"),
         N("ReduceSum", "next", "sum", keepdims=0)], "i:int64[] go:bool[] v", "go_on:bool[] next sum"))],
     {"x": f(2, 3)}, "last all", {"n": s64(5), "w": f(3, seed="l")}, dims={"x": ["N", 3]})
CASE("loop_while_op16", 16, [N("Loop", "_ yes one", "n trace", body=G("step", [
         N("Mul", "v two", "next"), N("Less", "next limit", "go_on"), N("Identity", "next", "t")],
         "i:int64[] go:bool[] v", "go_on:bool[] next t"))], {"limit": s32f(37)}, "n trace",
     {"yes": np.array(True), "one": s32f(1), "two": s32f(2)})
CASE("scan_reverse_op11", 11, [N("Scan", "h x", "last all", num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1],
         scan_output_axes=[1], scan_output_directions=[1], body=G("step", [
             N("MatMul", "hh r", "a"), N("Add", "a xt", "b"), N("Tanh", "b", "next"), N("Identity", "next", "out")],
             "hh xt", "next out"))], {"x": f(2, 5, 3)}, "last all", {"h": f(2, 3, seed="h"), "r": f(3, 3, seed="r")},
     dims={"x": ["N", "T", 3]})
CASE("if_in_loop_op13", 13, [N("Loop", "n _ x", "y", body=G("step", [
         N("Mod", "i two_i", "odd"), N("Equal", "odd one_i", "c"),
         N("If", "c", "next", then_branch=G("odd_step", [N("Sqrt", "v", "o1")], "", "o1"),
           else_branch=G("even_step", [N("Mul", "v k", "o2")], "", "o2")), N("Identity", "go", "go_on")],
         "i:int64[] go:bool[] v", "go_on:bool[] next"))], {"x": np.abs(f(3))}, "y",
     {"n": s64(4), "two_i": s64(2), "one_i": s64(1), "k": s32f(3)})
