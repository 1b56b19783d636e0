"""The answers of ONNX Runtime for the exported cases: packages/onnx/tests/golden/export.json.

npm run build
node packages/onnx/dist/tests/export/write-cases.js /tmp/cases
python3 packages/onnx/tests/golden/export.py /tmp/cases        # onnx 1.23, onnxruntime 1.30

Every model passes onnx.checker with full_check, and ONNX Runtime's answers agree with Heddle's for all three batch sizes; the
script fails otherwise. It keeps the hash of each model, its operators, and the answers for one batch size.
"""
import base64
import hashlib
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

TYPES = {"f32": np.float32, "i32": np.int32, "bool": np.bool_, "i8": np.int8, "u8": np.uint8}

folder = pathlib.Path(sys.argv[1])
onnxruntime.set_default_logger_severity(3)
golden, worst_of_all = {}, 0.0


def array(tensor):
    return np.array(tensor["values"], dtype=TYPES[tensor["dtype"]]).reshape(tensor["shape"])


for file in sorted(folder.glob("*.onnx")):
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    case = json.loads(file.with_suffix(".json").read_text())
    kept, worst = [], 0.0
    for number, run in enumerate(case["runs"]):
        feeds = {i.name: array(t) for i, t in zip(session.get_inputs(), run["inputs"], strict=True)}
        answers = session.run(None, feeds)
        for answer, tensor in zip(answers, run["outputs"], strict=True):
            expected = array(tensor)
            assert answer.shape == expected.shape and answer.dtype == expected.dtype, (file.stem, answer.shape)
            a, e = answer.astype(np.float64), expected.astype(np.float64)
            if a.size:
                worst = max(worst, np.max(np.abs(a - e)) / max(1.0, np.max(np.abs(e))))
            if number == 0:
                kept.append({"shape": answer.shape, "dtype": tensor["dtype"], "data": base64.b64encode(answer.tobytes()).decode()})
    print(f"{file.stem}: {worst:.1e}")
    assert worst <= case["tolerance"], file.stem
    if case["tolerance"] < 1e-5:
        worst_of_all = max(worst_of_all, worst)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    golden[file.stem] = {"sha256": sha256, "operators": case["operators"], "outputs": kept}

print(f"{len(golden)} cases, largest difference of those in f32 {worst_of_all:.1e}")
lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in golden.items()]
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
