"""Golden numbers of quantization: ONNX Runtime's QuantizeLinear and DequantizeLinear, and PyTorch's fake quantization.

    python3 quantization.py        # needs onnx, onnxruntime, torch and numpy; writes quantization.json beside this file
"""
import json
import os

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

TYPES = {"i8": (TensorProto.INT8, np.int8), "u8": (TensorProto.UINT8, np.uint8)}


def run(op, inputs, axis, out):
    """One node of opset 21, on the CPU."""
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, **{np.dtype(d): t for t, d in TYPES.values()}}
    names = ["x", "scale", "zero"]
    node = helper.make_node(op, names, ["y"], axis=axis)
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info(n, kinds[v.dtype], v.shape) for n, v in zip(names, inputs)],
        [helper.make_tensor_value_info("y", out, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs)))[0]


rng = np.random.default_rng(0)
cases = []
for dtype, scale, zero, axis in [
    ("i8", 0.013, 0, 1),
    ("i8", 0.05, -17, 1),
    ("u8", 0.02, 131, 1),
    ("i8", [0.01, 0.5, 0.031], [0, 0, 0], 1),
    ("u8", [0.01, 0.02], [100, 3], 0),
]:
    kind, numpy = TYPES[dtype]
    x = (rng.standard_normal((2, 3, 8)) * 1.5).astype(np.float32)
    # Ties, and values out of reach.
    x[0, 0, :4] = np.float32(np.ravel(scale)[0]) * np.array([0.5, 1.5, -2.5, 1000], np.float32)
    s, z = np.array(scale, np.float32), np.array(zero, numpy)
    q = run("QuantizeLinear", [x, s, z], axis, kind)
    d = run("DequantizeLinear", [q, s, z], axis, TensorProto.FLOAT)
    case = dict(dtype=dtype, scale=s.tolist(), zeroPoint=z.tolist(), axis=axis, x=x.tolist(), q=q.tolist(), d=d.tolist())
    least, most = np.iinfo(numpy).min, np.iinfo(numpy).max
    t = torch.tensor(x, requires_grad=True)
    if s.ndim:
        y = torch.fake_quantize_per_channel_affine(t, torch.tensor(s), torch.tensor(z, dtype=torch.int32), axis, least, most)
    else:
        y = torch.fake_quantize_per_tensor_affine(t, float(s), int(z), least, most)
    (y * torch.arange(y.numel()).reshape(y.shape)).sum().backward()
    case["gradient"] = t.grad.tolist()
    cases.append(case)

with open(os.path.join(os.path.dirname(__file__), "quantization.json"), "w") as f:
    json.dump({"onnxruntime": onnxruntime.__version__, "torch": torch.__version__, "cases": cases}, f)
    f.write("\n")
