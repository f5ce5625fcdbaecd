# SPDX-License-Identifier: Apache-2.0
"""The peers' side of compare.py, run where they are installed: python3 -c "$(cat peers.py)" REQUEST

REQUEST is a JSON object. "script" is their timing program, a Python file with MODELS (a model's training batch, and
whether it is a convnet), cases(options) and run_case(case, options). One JSON object a case on standard output.
"""
import argparse
import importlib.util
import json
import sys

request = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("bench", request["script"])
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)
for name in request["models"]:
    bench.MODELS.setdefault(name, (1, 0))
options = argparse.Namespace(models=request["models"], modes=[request["mode"]], threads=[request["threads"]],
                             peers=request["peers"], dir=request["dir"], timeout=300,
                             runs=[5, 0.2] if request["quick"] else [20, 1.0])
skip = {tuple(s) for s in request["skip"]}
for case in bench.cases(options):
    key = (case["peer"], case.get("layout"))
    if case["batch"] == request["batch"] and key not in skip:
        skip.add(key)  # a model whose two batches are the same comes twice
        print(json.dumps(bench.run_case(case, options)), flush=True)
