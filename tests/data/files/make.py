#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of this folder with NumPy itself: what the readers are tested against. Usage: make.py FOLDER"""
import gzip
import struct
import sys
from pathlib import Path

import numpy as np

out = Path(sys.argv[1])

count = np.arange(6)
arrays = {
    "f64": (count / 4 - 0.5).astype("<f8").reshape(2, 3),
    "f32": (count / 4 - 0.5).astype("<f4").reshape(2, 3),
    "f16": (count / 4 - 0.5).astype("<f2").reshape(2, 3),
    "i64": (count - 3).astype("<i8").reshape(2, 3),
    "i32": (count - 3).astype("<i4").reshape(2, 3),
    "i8": (count - 3).astype("i1").reshape(2, 3),
    "u8": (count + 250).astype("u1").reshape(2, 3),
    "bool": (count % 2 == 1).reshape(2, 3),
    "scalar": np.array(2.5, "<f4"),
    "empty": np.zeros((0, 3), "<f4"),
    "in/nested": np.array([1.0], "<f4"),
    "fortran": np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4)),
    "long": (np.arange(5000) % 17).astype("<f4"),
    "bytes": np.array([b"ab", b"", b"cde"]),
    "text": np.array(["w", "gr\u00fc\u00df", "\u65e5\U0001f600"]),
    "big_endian": count.astype(">f4"),
    "complex": count.astype("<c8"),
    "records": np.zeros(2, [("a", "<f4"), ("b", "<i4")]),
}
np.savez(out / "numpy.npz", **{k: v for k, v in arrays.items() if k != "long"})
np.savez_compressed(out / "numpy_compressed.npz", **arrays)
np.save(out / "f32.npy", arrays["f32"])
with open(out / "version2.npy", "wb") as f:
    np.lib.format.write_array(f, arrays["f32"], version=(2, 0))

pixels = bytes(range(12))
idx = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 3) + pixels
(out / "pixels.idx").write_bytes(idx)
(out / "pixels.idx.gz").write_bytes(gzip.compress(idx, mtime=0))
