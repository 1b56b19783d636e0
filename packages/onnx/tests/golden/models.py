"""
Exports models of torchvision, timm and transformers with random weights, and what ONNX Runtime computes of them.

    python3 packages/onnx/tests/golden/models.py                      # small ones: model-cases.bin.br, for the tests
    python3 packages/onnx/tests/golden/models.py --large /tmp/models  # whole architectures, for tests/compare-models.ts

Weights of the small ones are taken from few values, so that the file is small. The file has the form of node-cases.bin.br, and
so has each file of the large ones: a model, its inputs, and the outputs of ONNX Runtime.
"""

import argparse
import io
import json
import pathlib
import struct
import subprocess
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch import nn

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent

COMPRESS = """
const { readFileSync, writeFileSync, rmSync } = require('node:fs');
const { brotliCompressSync, constants } = require('node:zlib');
const bytes = readFileSync(process.argv[1]);
const quality = Number(process.argv[2]);
const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: quality };
writeFileSync(process.argv[1] + '.br', brotliCompressSync(bytes, { params }));
rmSync(process.argv[1]);
"""


def vision():
    """torchvision, whose import registers operators that this build of torch lacks."""
    real = torch.library.register_fake

    def patched(op, *args, **kwargs):
        if isinstance(op, str) and op.startswith("torchvision::"):
            return lambda f: f
        return real(op, *args, **kwargs)

    torch.library.register_fake = patched
    import torchvision

    torch.library.register_fake = real
    return torchvision


def coarse(module):
    """Weights of 16 values each, running statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            spread = parameter.std().item() if parameter.numel() > 1 else 1.0
            spread = spread if spread > 0 else 0.1
            centre = parameter.mean().item()
            steps = torch.randint(-8, 8, parameter.shape, generator=generator) / 5
            parameter.copy_(centre + spread * steps)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.randint(-4, 4, buffer.shape, generator=generator) / 8)
            if name.endswith("running_var"):
                buffer.copy_(torch.randint(2, 8, buffer.shape, generator=generator) / 4)
    return module


def exported(module, inputs, dynamic, dynamo, opset):
    module = module.eval()
    names = [f"input{i}" for i in range(len(inputs))]
    target = io.BytesIO()
    if dynamo:
        shapes = tuple({axis: torch.export.Dim(label) for axis, label in axes.items()} for axes in dynamic)
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "model.onnx")
            program = torch.onnx.export(
                module, inputs, dynamo=True, dynamic_shapes=shapes if any(shapes) else None,
                input_names=names, opset_version=opset, verbose=False,
            )
            program.save(path, external_data=False)
            return pathlib.Path(path).read_bytes()
    torch.onnx.export(
        module, inputs, target, dynamo=False, input_names=names, opset_version=opset,
        dynamic_axes={n: a for n, a in zip(names, dynamic) if a},
    )
    return target.getvalue()


def expected(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: x for i, x in zip(session.get_inputs(), inputs)}
    return session.run(None, feeds)


def write(path, cases, quality):
    """Cases: (name, model, sets of inputs)."""
    payload, entries = [], []

    def stored(array):
        data = numpy_helper.from_array(np.asarray(array)).SerializeToString(deterministic=True)
        payload.append(data)
        return len(data)

    for name, model, sets in cases:
        payload.append(model)
        entry = {"name": name, "rtol": 1e-4, "atol": 1e-4, "model": len(model), "sets": []}
        for inputs in sets:
            entry["sets"].append(
                {"inputs": [stored(x) for x in inputs], "outputs": [stored(y) for y in expected(model, inputs)]}
            )
        entries.append(entry)
    header = json.dumps({"onnx": onnx.__version__, "opset": 0, "versions": {}, "deprecated": {}, "cases": entries}).encode()
    path.write_bytes(struct.pack("<I", len(header)) + header + b"".join(payload))
    subprocess.run(["node", "-e", COMPRESS, str(path), str(quality)], check=True)
    return pathlib.Path(str(path) + ".br").stat().st_size


def images(*shape):
    rng = np.random.default_rng(len(shape) + shape[0])
    return np.round(rng.standard_normal(shape) * 16).astype(np.float32) / 16


def tokens(batch, length, most):
    return np.random.default_rng(batch + length).integers(0, most, (batch, length)).astype(np.int64)


class UNet(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        self.down1, self.down2, self.bottom = block(3, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.join2, self.join1, self.head = block(4 * c, 2 * c), block(3 * c, c), nn.Conv2d(c, 2, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        y = self.up2(self.bottom(self.pool(b)))
        y = self.up1(self.join2(torch.cat([y, b], 1)))
        return self.head(self.join1(torch.cat([y, a], 1)))


class SuperResolution(nn.Module):
    def __init__(self, factor=3):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.PReLU(),
            nn.Conv2d(8, factor**2, 3, padding=1), nn.PixelShuffle(factor),
        )

    def forward(self, x):
        small = nn.functional.interpolate(x, scale_factor=3, mode="bicubic", align_corners=False)
        return self.layers(x) + small


class YoloHead(nn.Module):
    """Boxes and classes of a grid, as YOLOv5 and later decode them."""

    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.SiLU())
        self.head = nn.Conv2d(8, 3 * (5 + classes), 1)
        self.register_buffer("anchors", torch.tensor([[10.0, 13], [16, 30], [33, 23]]).view(1, 3, 1, 1, 2))
        self.classes = classes

    def forward(self, x):
        y = self.head(self.stem(x))
        n, _, h, w = y.shape
        y = y.view(n, 3, 5 + self.classes, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((columns, rows), -1).view(1, 1, h, w, 2).float()
        xy = (y[..., 0:2] * 2 - 0.5 + grid) * 4
        wh = (y[..., 2:4] * 2) ** 2 * self.anchors
        return torch.cat((xy, wh, y[..., 4:]), -1).reshape(n, -1, 5 + self.classes)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.lstm = nn.LSTM(8, 8, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.tags = nn.Linear(8, 5)

    def forward(self, tokens):
        return self.tags(self.gru(self.lstm(self.words(tokens))[0])[0])


class Encoder(nn.Module):
    """A text encoder as a function of tokens alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, attention_mask=torch.ones_like(tokens))[0]


def bert(hidden, layers, heads, vocabulary):
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=2 * hidden, max_position_embeddings=64, attn_implementation="eager", return_dict=False,
    )
    return Encoder(BertModel(config))


class Gpt(nn.Module):
    def __init__(self, hidden, layers, heads, vocabulary):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=64,
            attn_implementation="eager", use_cache=False,
        )
        self.model = GPT2LMHeadModel(config)

    def forward(self, tokens):
        return self.model(tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits


class Causal(nn.Module):
    """A language model of the Llama kind as a function of tokens alone: rotary positions, RMS norms, grouped queries, gated layers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits


BATCH = {0: "batch"}
SEQUENCE = {0: "batch", 1: "sequence"}


def small():
    tv = vision()
    import timm

    models = tv.models
    from torchvision.models.resnet import BasicBlock

    def resnet():
        net = models.ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)
        net.conv1, net.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        net.inplanes = 8
        net.layer1, net.layer2 = net._make_layer(BasicBlock, 8, 1), net._make_layer(BasicBlock, 16, 1, stride=2)
        net.layer3, net.layer4 = net._make_layer(BasicBlock, 16, 1, stride=2), net._make_layer(BasicBlock, 24, 1, stride=2)
        net.fc = nn.Linear(24, 10)
        return net

    def vgg():
        net = models.VGG(models.vgg.make_layers([4, "M", 8, "M", 8, "M"], batch_norm=True), num_classes=10)
        net.avgpool = nn.AdaptiveAvgPool2d(2)
        net.classifier = nn.Sequential(nn.Linear(8 * 4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 10))
        return net

    def timm_vit():
        return timm.models.VisionTransformer(
            img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3, mlp_ratio=2, num_classes=10
        )

    def timm_convnext():
        return timm.models.ConvNeXt(depths=(1, 1, 1, 1), dims=(8, 12, 16, 24), num_classes=10)

    image = lambda n, s=32, c=3: (torch.from_numpy(images(n, c, s, s)),)
    two = lambda s=32, c=3: [(images(1, c, s, s),), (images(3, c, s, s),)]
    words = lambda: [(tokens(1, 7, 50),), (tokens(3, 12, 50),)]
    vision_models = {
        "resnet": resnet, "vgg": vgg, "vit": timm_vit, "convnext": timm_convnext,
        "mobilenet_v2": lambda: models.mobilenet_v2(width_mult=0.1, num_classes=10),
        "densenet": lambda: models.DenseNet(4, (2, 2), 8, num_classes=10),
        "squeezenet": lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
            models.squeezenet.Fire(8, 4, 8, 8), models.squeezenet.Fire(16, 4, 8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        ),
        "unet": UNet, "yolo_head": YoloHead,
    }
    for name, make in vision_models.items():
        yield name, make, image(2), [BATCH], two()
    yield "super_resolution", SuperResolution, image(2, 12, 1), [{0: "n", 2: "h", 3: "w"}], [(images(1, 1, 12, 12),), (images(2, 1, 7, 9),)]
    yield "tagger", Tagger, (torch.from_numpy(tokens(2, 5, 50)),), [SEQUENCE], words()
    yield "bert", lambda: bert(24, 2, 2, 50), (torch.from_numpy(tokens(2, 5, 50)),), [SEQUENCE], words()
    yield "gpt2", lambda: Gpt(24, 2, 2, 50), (torch.from_numpy(tokens(2, 5, 50)),), [SEQUENCE], words()


def quantized(model, sets):
    """The model in 8 bits: with QuantizeLinear and DequantizeLinear, with quantized operators, and dynamically."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.batches = iter([{"input0": inputs[0]} for inputs in sets])

        def get_next(self):
            return next(self.batches, None)

    with tempfile.TemporaryDirectory() as folder:
        source = str(pathlib.Path(folder) / "model.onnx")
        target = str(pathlib.Path(folder) / "quantized.onnx")
        pathlib.Path(source).write_bytes(model)
        for name, options in {
            "qdq": {"quant_format": QuantFormat.QDQ, "per_channel": True, "weight_type": QuantType.QInt8},
            "qoperator": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8},
        }.items():
            quantize_static(source, target, Reader(), **options)
            yield name, pathlib.Path(target).read_bytes()
        quantize_dynamic(source, target, weight_type=QuantType.QUInt8)
        yield "dynamic", pathlib.Path(target).read_bytes()


def write_small():
    cases = []
    for name, make, inputs, dynamic, sets in small():
        for dynamo in (False, True):
            if dynamo and name in ("tagger",):
                continue
            torch.manual_seed(0)
            try:
                model = exported(coarse(make()), inputs, dynamic, dynamo, 18 if dynamo else 17)
            except Exception as error:
                print(name, "dynamo" if dynamo else "script", "cannot be exported:", str(error).split("\n")[0][:200])
                continue
            label = f"{name}_{'dynamo' if dynamo else 'script'}"
            cases.append((label, model, sets))
            print(label, len(model))
            if name == "resnet" and not dynamo:
                cases += [(f"{name}_{kind}", q, sets) for kind, q in quantized(model, sets)]
    size = write(HERE / "model-cases.bin", cases, 11)
    print(len(cases), "models,", size, "bytes")


LARGE_VISION = [
    "resnet18", "resnet50", "vgg11", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_1", "densenet121",
    "convnext_tiny", "shufflenet_v2_x0_5", "mnasnet0_5", "regnet_y_400mf", "googlenet", "swin_t",
]
LARGE_TIMM = [
    "vit_tiny_patch16_224", "deit_tiny_patch16_224", "mixer_s32_224", "tf_efficientnet_lite0", "ghostnet_100", "repvgg_a0",
    "edgenext_xx_small", "levit_128s", "mobilevit_xxs", "poolformer_s12", "resnetv2_50", "hardcorenas_a", "lcnet_050", "coat_tiny",
    "convnextv2_atto", "mobilenetv4_conv_small", "eva02_tiny_patch14_224",
]


def write_large(folder, only):
    tv = vision()
    import timm

    folder.mkdir(parents=True, exist_ok=True)

    def one(name, make, inputs, dynamic, sets, modes=(False, True)):
        for dynamo in modes:
            label = f"{name}_{'dynamo' if dynamo else 'script'}"
            if only and only not in label or (folder / f"{label}.bin.br").exists():
                continue
            torch.manual_seed(0)
            try:
                model = exported(make().eval(), inputs, dynamic, dynamo, 18 if dynamo else 17)
                write(folder / f"{label}.bin", [(label, model, sets)], 1)
                print(label, len(model), flush=True)
            except Exception as error:
                print(label, "cannot be exported:", str(error).split("\n")[0][:200], flush=True)

    size = {"swin_t": 224}
    for name in LARGE_VISION:
        x = images(2, 3, 224, 224)
        kwargs = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        one(name, lambda: tv.models.get_model(name, weights=None, **kwargs), (torch.from_numpy(x),), [BATCH], [(x,)])
    for name in LARGE_TIMM:
        x = images(2, 3, 224, 224)
        one(name, lambda: timm.create_model(name), (torch.from_numpy(x),), [BATCH], [(x,)])
    ids = tokens(2, 24, 1000)
    one("bert", lambda: bert(128, 4, 4, 1000), (torch.from_numpy(ids),), [SEQUENCE], [(ids,), (tokens(3, 40, 1000),)])
    one("gpt2", lambda: Gpt(128, 4, 4, 1000), (torch.from_numpy(ids),), [SEQUENCE], [(ids,), (tokens(3, 40, 1000),)])
    hf = {}
    from transformers import DistilBertConfig, DistilBertModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
    from transformers import RobertaConfig, RobertaModel

    common = {"return_dict": False, "attn_implementation": "eager"}
    hf["distilbert"] = lambda: Encoder(DistilBertModel(DistilBertConfig(vocab_size=1000, dim=64, n_layers=2, n_heads=4, hidden_dim=128, **common)))
    hf["roberta"] = lambda: Encoder(RobertaModel(RobertaConfig(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64, **common)))
    causal = {
        "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 128, "max_position_embeddings": 64, "attn_implementation": "eager",
    }
    hf["llama"] = lambda: Causal(LlamaForCausalLM(LlamaConfig(**causal)))
    hf["qwen3"] = lambda: Causal(Qwen3ForCausalLM(Qwen3Config(**causal, head_dim=16)))
    for name, make in hf.items():
        one(name, make, (torch.from_numpy(ids),), [SEQUENCE], [(ids,), (tokens(3, 40, 1000),)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=pathlib.Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.large:
        write_large(args.large, args.only)
    else:
        write_small()
