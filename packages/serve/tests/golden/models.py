"""ONNX models for the tests of the service, and what ONNX Runtime answers. Needs onnx, onnxruntime and numpy.

Usage: python3 packages/serve/tests/golden/models.py
"""
import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

folder = pathlib.Path(__file__).parent
random = np.random.default_rng(1)


def weights(name, *shape):
    return numpy_helper.from_array((random.standard_normal(shape) / 4).astype(np.float32), name)


def save(name, nodes, inputs, outputs, initializers, examples):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")
    session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"))
    answers = []
    for example in examples:
        results = session.run(None, example)
        answers.append(
            {
                "inputs": {key: {"shape": list(value.shape), "data": value.flatten().tolist()} for key, value in example.items()},
                "outputs": [{"shape": list(value.shape), "data": value.flatten().tolist()} for value in results],
            }
        )
    return answers


f32 = TensorProto.FLOAT
info = helper.make_tensor_value_info
node = helper.make_node

# A classifier of images of 8 × 8 pixels in colour, in batches of any size.
classifier = save(
    "classifier",
    [
        node("Conv", ["image", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"], axis=1),
        node("Gemm", ["f", "w2", "b2"], ["g"], transB=1),
        node("Softmax", ["g"], ["probabilities"], axis=1),
    ],
    [info("image", f32, ["n", 3, 8, 8])],
    [info("probabilities", f32, ["n", 3])],
    [weights("w1", 4, 3, 3, 3), weights("b1", 4), weights("w2", 3, 64), weights("b2", 3)],
    [{"image": random.standard_normal((rows, 3, 8, 8)).astype(np.float32)} for rows in (1, 3)],
)

# Two inputs whose sizes are free, beyond the batch: requests of different lengths cannot share a batch.
mixer = save(
    "mixer",
    [node("MatMul", ["x", "w"], ["xw"]), node("Add", ["xw", "y"], ["z"]), node("ReduceMean", ["z"], ["mean"], axes=[1], keepdims=0)],
    [info("x", f32, ["n", "length", 4]), info("y", f32, ["n", "length", 2])],
    [info("z", f32, ["n", "length", 2]), info("mean", f32, ["n", 2])],
    [weights("w", 4, 2)],
    [
        {
            "x": random.standard_normal((rows, length, 4)).astype(np.float32),
            "y": random.standard_normal((rows, length, 2)).astype(np.float32),
        }
        for rows, length in ((1, 2), (2, 5))
    ],
)

# One that has no batch.
fixed = save(
    "fixed",
    [node("Sin", ["x"], ["y"])],
    [info("x", f32, [2, 2])],
    [info("y", f32, [2, 2])],
    [],
    [{"x": random.standard_normal((2, 2)).astype(np.float32)}],
)

(folder / "answers.json").write_text(json.dumps({"classifier": classifier, "mixer": mixer, "fixed": fixed}) + "\n")
