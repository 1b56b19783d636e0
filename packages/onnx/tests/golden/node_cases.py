"""
Writes node-cases.bin.br: the node tests of the `onnx` package, all of them, and the versions of all operators.

    python3 packages/onnx/tests/golden/node_cases.py

The file, compressed with brotli: a u32 with the length of a JSON header, the header, and the bytes that it counts off, one
after the other. Of each case: the model, then for each data set its inputs and outputs, each a TensorProto, a list of them (a
sequence), or nothing (null).
"""

import json
import pathlib
import struct
import subprocess
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent

payload = []


def stored(value, type_proto):
    """The lengths of a value, whose bytes go to the payload."""
    if value is None:
        return None
    if isinstance(value, list):
        inner = type_proto
        while inner is not None and inner.WhichOneof("value") in ("sequence_type", "optional_type"):
            inner = getattr(inner, inner.WhichOneof("value")).elem_type
        return [stored(np.asarray(v) if not isinstance(v, onnx.TensorProto) else v, inner) for v in value]
    tensor = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))
    data = tensor.SerializeToString(deterministic=True)
    payload.append(data)
    return len(data)


cases = []
for case in sorted(collect_testcases(None), key=lambda c: c.name):
    model = case.model
    model.graph.doc_string = ""
    data = model.SerializeToString(deterministic=True)
    payload.append(data)
    sets = []
    for inputs, outputs in case.data_sets:
        sets.append(
            {
                "inputs": [stored(v, i.type) for v, i in zip(inputs, model.graph.input)],
                "outputs": [stored(v, o.type) for v, o in zip(outputs, model.graph.output)],
            }
        )
    cases.append({"name": case.name, "rtol": case.rtol, "atol": case.atol, "model": len(data), "sets": sets})

versions, deprecated = {}, {}
for schema in onnx.defs.get_all_schemas_with_history():
    name = schema.name if schema.domain == "" else f"{schema.domain}.{schema.name}"
    versions.setdefault(name, []).append(schema.since_version)
    if schema.deprecated:
        deprecated.setdefault(name, []).append(schema.since_version)

header = json.dumps(
    {
        "onnx": onnx.__version__,
        "opset": onnx.defs.onnx_opset_version(),
        "versions": {name: sorted(v) for name, v in sorted(versions.items())},
        "deprecated": deprecated,
        "cases": cases,
    }
).encode()
target = HERE / "node-cases.bin"
target.write_bytes(struct.pack("<I", len(header)) + header + b"".join(payload))
compress = """
const { readFileSync, writeFileSync, rmSync } = require('node:fs');
const { brotliCompressSync, constants } = require('node:zlib');
const bytes = readFileSync(process.argv[1]);
const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
writeFileSync(process.argv[1] + '.br', brotliCompressSync(bytes, { params }));
rmSync(process.argv[1]);
"""
subprocess.run(["node", "-e", compress, str(target)], check=True)
print(len(cases), "cases,", (HERE / "node-cases.bin.br").stat().st_size, "bytes")
