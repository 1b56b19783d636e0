"""
Operators of ONNX Runtime's own domain, and what ONNX Runtime computes of them: contrib-cases.bin.br, in the form of node-cases.bin.br.

    python3 packages/onnx/tests/golden/contrib.py        # onnx 1.23, onnxruntime 1.30, transformers 5.18

Models of one node each, and an encoder that ONNX Runtime's optimizer for transformers has rewritten with these operators.
"""

import pathlib
import tempfile

import numpy as np
import onnx
import torch
from models import HERE, SEQUENCE, bert, coarse, exported, tokens, vision, write
from onnx import TensorProto, helper, numpy_helper

vision()
rng = np.random.default_rng(1)
TYPES = {np.dtype(k): v for k, v in {
    "float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8, "uint16": TensorProto.UINT16, "bool": TensorProto.BOOL,
}.items()}


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model_of(op, inputs, outputs, constants, domain, attributes):
    """A model of one node; `inputs` are arrays, None for those left out; those in `constants` are in the model."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" if kind else "" for i, kind in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    given = [i for i, x in enumerate(inputs) if x is not None and i not in constants]
    graph = helper.make_graph(
        [node], op,
        [helper.make_tensor_value_info(names[i], TYPES[inputs[i].dtype], inputs[i].shape) for i in given],
        [helper.make_tensor_value_info(f"y{i}", kind, None) for i, kind in enumerate(outputs) if kind],
        [numpy_helper.from_array(inputs[i], names[i]) for i in constants],
    )
    imports = [helper.make_opsetid("", 21)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString(), [inputs[i] for i in given]


F, I32, U8, I8 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT8, TensorProto.INT8
found = []


def case(name, op, inputs, outputs=(F,), constants=(), domain="com.microsoft", **attributes):
    model, given = model_of(op, inputs, outputs, constants, domain, attributes)
    found.append((name, model, [tuple(given)]))


def normalizations():
    x, skip, gamma, beta, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    case("skip_layer_normalization", "SkipLayerNormalization", [x, skip, gamma, beta, bias], (F, 0, 0, F), epsilon=1e-5)
    case("skip_layer_normalization_plain", "SkipLayerNormalization", [x, skip, gamma])
    case("skip_layer_normalization_broadcast", "SkipLayerNormalization", [x, normal(1, 3, 8), gamma, beta])
    case("skip_simplified", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], (F, 0, 0, F), epsilon=1e-5)
    case("skip_simplified_plain", "SkipSimplifiedLayerNormalization", [x, skip, gamma], epsilon=1e-5)
    case("simplified", "SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1, epsilon=1e-4)
    ids, segments = rng.integers(0, 9, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
    tables = [normal(9, 8), normal(7, 8), normal(2, 8)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=np.int32)
    places = rng.integers(0, 7, (2, 5)).astype(np.int32)
    case("embed_layer_normalization", "EmbedLayerNormalization", [ids, segments, *tables, gamma, beta], (F, I32), epsilon=1e-5)
    case("embed_mask", "EmbedLayerNormalization", [ids, segments, *tables, gamma, beta, mask, places], (F, I32, F), mask_index_type=1)
    case("embed_words", "EmbedLayerNormalization", [ids, None, tables[0], tables[1], None, gamma, beta], (F, I32))


def activations():
    x, bias = 3 * normal(2, 3, 8), normal(8)
    case("bias_gelu", "BiasGelu", [x, bias])
    case("fast_gelu", "FastGelu", [x, bias])
    case("fast_gelu_plain", "FastGelu", [x])
    case("gelu", "Gelu", [x])
    case("quick_gelu", "QuickGelu", [x], alpha=1.3)


def products():
    case("fused_matmul", "FusedMatMul", [normal(2, 5, 3), normal(2, 4, 5)], transA=1, transB=1, alpha=0.5)
    case("fused_matmul_batch", "FusedMatMul", [normal(4, 2, 5), normal(2, 5, 3)], transBatchA=1)
    case("fused_gemm", "FusedGemm", [normal(4, 5), normal(3, 5), normal(3)], transB=1, alpha=0.7, beta=0.3, activation="LeakyRelu", activation_alpha=0.2)
    x, w, b = normal(2, 3, 6, 6), normal(4, 3, 3, 3), normal(4)
    case("fused_conv", "FusedConv", [x, w, b, normal(2, 4, 6, 6)], pads=[1, 1, 1, 1], activation="Relu")
    case("fused_conv_clip", "FusedConv", [x, w, b], strides=[2, 2], activation="Clip", activation_params=[-0.5, 2.0])
    case("fused_conv_sigmoid", "FusedConv", [x, w], activation="HardSigmoid", activation_params=[0.2, 0.4])


def attention():
    x, w, b = normal(2, 5, 8), normal(8, 24) / 3, normal(24)
    of_keys = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=np.int32)
    case("attention", "Attention", [x, w, b], num_heads=2)
    case("attention_lengths", "Attention", [x, w, b, np.array([3, 5], dtype=np.int32)], num_heads=2)
    case("attention_keys", "Attention", [x, w, b, of_keys], num_heads=4)
    case("attention_pairs", "Attention", [x, w, b, rng.integers(0, 2, (2, 5, 5)).astype(np.int32)], num_heads=2, mask_filter_value=-50.0)
    case("attention_causal", "Attention", [x, w, b], num_heads=2, unidirectional=1, scale=0.3)
    case("attention_past", "Attention", [x, w, b, None, normal(2, 2, 2, 3, 4)], (F, F), num_heads=2, unidirectional=1)
    case("attention_bias", "Attention", [x, w, b, None, None, normal(1, 2, 5, 5)], num_heads=2)
    case("attention_widths", "Attention", [x, normal(8, 28) / 3, normal(28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])
    q, k, v = normal(2, 5, 8), normal(2, 4, 8), normal(2, 4, 12)
    multi = lambda name, inputs, outputs=(F,), **more: case(name, "MultiHeadAttention", inputs, outputs, num_heads=2, **more)
    multi("multi_head", [q, k, v])
    multi("multi_head_bias", [q, k, v, normal(28), of_keys[:, :4], normal(2, 2, 5, 4)], scale=0.4)
    multi("multi_head_lengths", [q, k, v, None, np.array([2, 4], dtype=np.int32)])
    multi("multi_head_causal", [q, normal(2, 5, 8), normal(2, 5, 8)], unidirectional=1)
    multi("multi_head_past", [q, k, normal(2, 4, 8), None, None, None, normal(2, 2, 3, 4), normal(2, 2, 3, 4)], (F, F, F))
    multi("multi_head_cross", [q, normal(2, 2, 4, 4), normal(2, 2, 4, 4)])
    case("rotary", "RotaryEmbedding", [normal(2, 3, 8), np.array([[0, 1, 2], [4, 5, 6]]), normal(9, 2), normal(9, 2)])
    case("rotary_offset", "RotaryEmbedding", [normal(2, 2, 3, 8), np.array([2]), normal(9, 4), normal(9, 4)], interleaved=1)
    case("rotary_part", "RotaryEmbedding", [normal(2, 3, 16), np.array([[0, 1, 2], [4, 5, 6]]), normal(9, 2), normal(9, 2)], num_heads=2, rotary_embedding_dim=4)


def grouped():
    angles = normal(16, 8) * 2
    caches = [np.cos(angles), np.sin(angles)]

    def of(name, steps, before, inputs=None, buffer=None, more=(), batch=2, **attributes):
        """Queries of 4 heads on keys of 2, of 16 features."""
        past = buffer if buffer is not None else before
        q, k, v = inputs or (normal(batch, steps, 64), normal(batch, steps, 32), normal(batch, steps, 32))
        lengths = np.full((batch,), before + steps - 1, dtype=np.int32)
        given = [q, k, v, normal(batch, 2, past, 16), normal(batch, 2, past, 16), lengths, np.array([before + steps], dtype=np.int32), *more]
        case(name, "GroupQueryAttention", given, (F, F, F), num_heads=4, kv_num_heads=2, **attributes)

    of("grouped_prompt", 5, 0)
    of("grouped_step", 1, 6, scale=0.2)
    of("grouped_steps", 3, 4, more=caches, do_rotary=1, batch=1)
    of("grouped_rotary", 1, 4, more=caches, do_rotary=1, rotary_interleaved=1)
    of("grouped_packed", 5, 0, inputs=(normal(2, 5, 128), None, None), more=caches, do_rotary=1)
    of("grouped_softcap", 5, 0, softcap=3.0)
    of("grouped_window", 7, 0, local_window_size=3)
    of("grouped_window_step", 1, 7, local_window_size=3)
    of("grouped_bias", 5, 0, more=[None, None, None, normal(2, 4, 5, 5)])


def quantized():
    zero8 = lambda v: np.array(v, dtype=np.uint8)
    scale = lambda v: np.array(v, dtype=np.float32)
    bytes8 = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)
    x = normal(2, 3, 4, 4)
    case("quantize_16", "QuantizeLinear", [x, scale(0.001), np.array(30000, dtype=np.uint16)], (TensorProto.UINT16,))
    case("quantize_axis", "QuantizeLinear", [x, scale([0.01, 0.02, 0.03]), np.array([1, -2, 3], dtype=np.int8)], (I8,), axis=1)
    case("dequantize_16", "DequantizeLinear", [rng.integers(0, 65536, (2, 5)).astype(np.uint16), scale(0.001), np.array(30000, dtype=np.uint16)])
    q = bytes8(2, 3, 4, 4)
    through = [q, scale(0.05), zero8(120), scale(0.01), zero8(40)]
    case("qlinear_sigmoid", "QLinearSigmoid", [*through[:3], scale(1 / 256), zero8(0)], (U8,))
    case("qlinear_leaky_relu", "QLinearLeakyRelu", through, (U8,), alpha=0.1)
    case("qlinear_average_pool", "QLinearAveragePool", [*through[:3], scale(0.04), zero8(100)], (U8,), kernel_shape=[2, 2], strides=[2, 2])
    case("qlinear_softmax", "QLinearSoftmax", [bytes8(3, 6), scale(0.02), zero8(90), scale(1 / 256), zero8(0)], (U8,), axis=-1, opset=13)
    case("qlinear_concat", "QLinearConcat", [scale(0.04), zero8(100), q, scale(0.05), zero8(120), bytes8(2, 2, 4, 4), scale(0.03), zero8(7)], (U8,), constants=(0, 1, 3, 4, 6, 7), axis=1)
    a, b = normal(2, 4, 6), bytes8(6, 5)
    case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [a, b, scale(0.02), zero8(130), normal(5)])
    case("dynamic_quantize_columns", "DynamicQuantizeMatMul", [a, b.view(np.int8), np.abs(normal(5)) / 20, np.zeros(5, np.int8)])
    case("integer_to_float", "MatMulIntegerToFloat", [bytes8(2, 4, 6), b, scale(0.03), scale(0.02), zero8(120), zero8(130), normal(5)])
    for bits, k, block in ((4, 40, 16), (4, 32, 32), (8, 32, 16)):
        n, blocks = 6, -(-k // block)
        packed = bytes8(n, blocks, block * bits // 8)
        scales = (np.abs(normal(n, blocks)) / 10).astype(np.float32)
        zeros = bytes8(n, -(-blocks * bits // 8))
        fixed = {"K": k, "N": n, "bits": bits, "block_size": block}
        case(f"matmul_{bits}_bits_{k}", "MatMulNBits", [normal(2, 3, k), packed, scales.reshape(-1)], constants=(1, 2), **fixed)
        case(f"matmul_{bits}_bits_{k}_zeros", "MatMulNBits", [normal(2, 3, k), packed, scales.reshape(-1), zeros.reshape(-1)], constants=(1, 2, 3), **fixed)


def optimized():
    """An encoder as ONNX Runtime's optimizer for transformers rewrites it."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    given = torch.from_numpy(tokens(2, 5, 50))
    torch.manual_seed(0)
    model = exported(coarse(bert(24, 2, 2, 50)), (given,), [SEQUENCE], False, 17)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "bert.onnx")
        pathlib.Path(path).write_bytes(model)
        best = optimizer.optimize_model(path, "bert", 2, 24, FusionOptions("bert"), opt_level=0)
        found.append(("bert_optimized", best.model.SerializeToString(), [(tokens(1, 7, 50),), (tokens(3, 12, 50),)]))


for make in (normalizations, activations, products, attention, grouped, quantized, optimized):
    make()
size = write(HERE / "contrib-cases.bin", found, 11)
print(len(found), "cases,", size, "bytes")
