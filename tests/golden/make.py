#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files: make.py --out DIR [CASE ...].  Needs PyTorch, onnx, onnxruntime and numpy.

DIR/CASE/model.onnx, input.npz, output.npz.  Expected outputs come from PyTorch in fp64 or from ONNX's reference evaluator,
and every file is checked with ONNX Runtime; where the evaluator cannot run a case, ONNX Runtime's own outputs are kept.
The three libraries cannot share a process (their copies of ONNX's C++ symbols clash), so each stage is a process of its own.
"""
import argparse, copy, json, os, shutil, subprocess, sys, warnings
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_BYTES = 30_000
# What ONNX's reference evaluator gets wrong or lacks: there ONNX Runtime's outputs are the expected ones.
NOT_IN_EVALUATOR = {
    "pad_input_op11": "negative pads",
    "gather_op13": "GatherElements along a negative axis",
    "convtranspose_op11": "auto_pad, output_shape",
    "conv_auto_pad_op11": "auto_pad",
    "batchnorm_op9": "takes an inference node for a training one when momentum is given",
    "weights_in_nodes_op11": "takes an inference node for a training one",
    "binary_int_op13": "rounds integer division down, not towards zero",
    "softmax_flat_op11": "takes opset 11 for 13",
    "upsample_op9": "linear",
    "resize_op10": "the spelling of opset 10",
    "resize_nearest_op11": "an empty roi",
    "resize_linear_op11": "an empty roi",
    "scan_reverse_op11": "directions",
    "loop_while_op16": "stacks numbers as vectors",
    "loop_counted_op13": "a loop without a condition",
    "if_in_loop_op13": "a loop without a condition",
}


def save(out, name, inputs, outputs=None):
    os.makedirs(f"{out}/{name}", exist_ok=True)
    np.savez(f"{out}/{name}/input.npz", **inputs)
    if outputs is not None:
        np.savez(f"{out}/{name}/output.npz", **outputs)


def stage_torch(out, only):
    import torch
    from cases_torch import CASES
    torch.backends.mha.set_fastpath_enabled(False)      # its kernel is one opaque node
    for name, c in CASES.items():
        if only and name not in only:
            continue
        m = c["module"]
        if c["export"].get("training") != torch.onnx.TrainingMode.PRESERVE:     # given: export as it is
            m.eval()
        r = np.random.default_rng(c["seed"])
        with torch.no_grad():
            for k, p in m.named_parameters() if not c["fresh"] else ():
                p.copy_(torch.from_numpy((r.standard_normal(p.shape) * (0.3 if p.dim() > 1 else 0.5) + (k.endswith("weight") and p.dim() == 1)).astype(np.float32)))
            for k, b in m.named_buffers() if not c["fresh"] else ():
                if k.endswith("running_mean"):
                    b.copy_(torch.from_numpy(r.standard_normal(b.shape).astype(np.float32)))
                if k.endswith("running_var"):
                    b.copy_(torch.from_numpy(r.uniform(0.5, 2, b.shape).astype(np.float32)))
            x = c["inputs"]
            y = copy.deepcopy(m).double()(*[v.double() if v.dtype == torch.float32 else v for v in x.values()])
        y = [v.float().numpy() if v.dtype == torch.float64 else v.numpy() for v in (y if isinstance(y, tuple) else (y,))]
        save(out, name, {k: v.numpy() for k, v in x.items()}, dict(zip(c["outputs"], y, strict=True)))
        dyn = c["dynamic"] or {k: {0: "N"} for k in x}
        args = dict(training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False) | c["export"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(m, tuple(x.values()), f"{out}/{name}/model.onnx", dynamo=False, opset_version=c["opset"],
                              input_names=list(x), output_names=list(c["outputs"]), dynamic_axes=dyn, **args)


    import cases_train
    for name in cases_train.RUNS:
        if not only or name in only:
            cases_train.make(out, name, save)


def stage_onnx(out, only):
    import onnx
    from onnx.reference import ReferenceEvaluator
    from cases_onnx import CASES
    for name, c in CASES.items():
        if only and name not in only:
            continue
        m = onnx.shape_inference.infer_shapes(c["model"], data_prop=True)     # the outputs' shapes
        del m.graph.value_info[:]
        try:
            y = dict(zip([o.name for o in m.graph.output], ReferenceEvaluator(m).run(None, c["inputs"])))
            y = {k: np.asarray(v) for k, v in y.items()}
        except Exception as e:
            y = None
            if name not in NOT_IN_EVALUATOR:
                sys.exit(f"{name}: the reference evaluator stops: {type(e).__name__}: {str(e)[:160]}")
        if name in NOT_IN_EVALUATOR:
            y = None
        for o in m.graph.output:
            if not o.type.tensor_type.HasField("shape"):
                o.type.tensor_type.shape.SetInParent()
                for _ in y[o.name].shape if y else ():
                    o.type.tensor_type.shape.dim.add()
        onnx.checker.check_model(m, full_check=True)
        save(out, name, c["inputs"], y)
        ext = dict(save_as_external_data=True, all_tensors_to_one_file=True, location="weights.bin", size_threshold=0) if c["external"] else {}
        onnx.save(m, f"{out}/{name}/model.onnx", **ext)


def stage_ort(out, only):
    import onnxruntime as ort
    bad, total = 0, 0
    for name in sorted(os.listdir(out)):
        d = f"{out}/{name}"
        if (only and name not in only) or not os.path.isfile(f"{d}/model.onnx"):
            continue
        total += 1
        o = ort.SessionOptions()
        o.intra_op_num_threads, o.log_severity_level = 1, 3
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        want = dict(np.load(f"{d}/output.npz")) if os.path.exists(f"{d}/output.npz") else None
        try:
            s = ort.InferenceSession(f"{d}/model.onnx", o, providers=["CPUExecutionProvider"])
            names = [v.name for v in s.get_outputs()]
            x = {k: v for k, v in np.load(f"{d}/input.npz").items() if k in {i.name for i in s.get_inputs()}}
            got = dict(zip(names, s.run(names, x)))
        except Exception as e:
            bad += 1
            print(f"{name}: ONNX Runtime: {str(e)[:300]}")
            continue
        if want is None:
            np.savez(f"{d}/output.npz", **got)
            want = got
        for k in names:
            a, b = got[k], want[k]
            same = a.dtype == b.dtype and a.shape == b.shape
            if same and a.size and a.dtype.kind == "f":
                scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)))))
                tol = (2e-3 if "float16" in name or a.dtype == np.float16 else 1e-5) * scale
                same = bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tol)))
            elif same:
                same = bool(np.array_equal(a, b))
            if not same:
                bad += 1
                print(f"{name}: output {k}: {a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}\n{a.ravel()[:12]}\n{b.ravel()[:12]}")
        size = os.path.getsize(f"{d}/model.onnx")
        if size > MAX_BYTES:
            bad += 1
            print(f"{name}: model.onnx has {size} bytes")
    print(f"{total} cases, {bad} problems")
    return bad


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--out", required=True)
    ap.add_argument("--stage", choices=["torch", "onnx", "ort"])
    ap.add_argument("cases", nargs="*")
    a = ap.parse_args()
    if a.stage:
        sys.exit(bool({"torch": stage_torch, "onnx": stage_onnx, "ort": stage_ort}[a.stage](a.out, a.cases)))
    for stage in ("torch", "onnx", "ort"):
        p = subprocess.run([sys.executable, os.path.abspath(__file__), "--out", a.out, "--stage", stage, *a.cases], stderr=subprocess.PIPE, text=True)
        # Debian's ONNX Runtime prints a screenful of "Schema error" lines (its libonnx registers twice): harmless
        sys.stderr.write("".join(l + "\n" for l in p.stderr.splitlines() if l and "Schema error" not in l))
        if p.returncode:
            sys.exit(p.returncode)
