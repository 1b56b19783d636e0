"""ONNX Runtime and PyTorch, doing what `npx heddle bench inference` does, which calls this: one JSON object a line.

    python3 packages/bench/inference_peers.py --model m.onnx --case lenet5-1 --input 1,1,28,28 --threads 1 [--device cuda]

On the CPU: ONNX Runtime on the model, from a numpy array to a numpy array. On a GPU: ONNX Runtime with CUDA and with TensorRT,
inputs and outputs bound to memory of the device, and PyTorch on a residual network of the same sizes (--network resnet50), in bf16
with channels last, eager, compiled, and as a CUDA graph. What is not installed is named with the reason.
"""
import argparse, json, statistics, time

options = argparse.ArgumentParser()
options.add_argument('--model', required=True)
options.add_argument('--case', required=True)
options.add_argument('--input', required=True, help='sizes, the batch first')
options.add_argument('--threads', type=int, default=1)
options.add_argument('--seconds', type=float, default=0.6)
options.add_argument('--device', choices=['cpu', 'cuda'], default='cpu')
options.add_argument('--network', choices=['resnet50'])
options = options.parse_args()
shape = [int(n) for n in options.input.split(',')]


def put(peer, version, mode, us=None, skipped=None):
    figures = {'skipped': str(skipped)[:300]} if us is None else {
        'us': float(f'{statistics.median(us):.4g}'), 'min': float(f'{min(us):.4g}'), 'samples': len(us)}
    print(json.dumps({'peer': peer, 'version': version, 'case': options.case, 'mode': mode, **figures}), flush=True)


def sample(run):
    """Microseconds of each call for so many seconds, after a third of that to warm up."""
    end = time.perf_counter() + options.seconds / 3
    while time.perf_counter() < end:
        run()
    times = []
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e6)
    return times


def onnx_runtime(mode, providers):
    try:
        import numpy, onnxruntime as ort
    except ImportError as error:
        return put('onnxruntime', '', mode, skipped=error)
    missing = [p for p in providers if p not in ort.get_available_providers()]
    if missing:
        return put('onnxruntime', ort.__version__, mode, skipped=f'{missing[0]} is not in this build')
    try:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = options.threads
        session = ort.InferenceSession(options.model, settings, providers=providers)
        value = numpy.random.default_rng(0).standard_normal(shape).astype(numpy.float32)
        feed = {session.get_inputs()[0].name: value}
        if options.device == 'cpu':
            run = lambda: session.run(None, feed)
        else:
            binding = session.io_binding()
            binding.bind_ortvalue_input(next(iter(feed)), ort.OrtValue.ortvalue_from_numpy(value, 'cuda', 0))
            binding.bind_output(session.get_outputs()[0].name, 'cuda')

            def run():
                session.run_with_iobinding(binding)
                binding.synchronize_outputs()
        put('onnxruntime', ort.__version__, mode, sample(run))
    except Exception as error:
        put('onnxruntime', ort.__version__, mode, skipped=error)


def torch_modes():
    try:
        import torch
        from torch import nn
    except ImportError as error:
        return put('torch', '', 'all', skipped=error)
    if not torch.cuda.is_available():
        return put('torch', torch.__version__, 'all', skipped='torch sees no GPU')

    class Bottleneck(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            inner = after // 4
            conv = lambda a, b, k, s: nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b))
            self.body = nn.Sequential(conv(before, inner, 1, 1), nn.ReLU(), conv(inner, inner, 3, stride), nn.ReLU(),
                                      conv(inner, after, 1, 1))
            self.shortcut = nn.Identity() if before == after and stride == 1 else conv(before, after, 1, stride)

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for i, (count, after) in enumerate([(3, 256), (4, 512), (6, 1024), (3, 2048)]):
        for j in range(count):
            layers.append(Bottleneck(before, after, 2 if i and not j else 1))
            before = after
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)).eval()
    model = model.cuda().to(torch.bfloat16, memory_format=torch.channels_last)
    x = torch.randn(*shape, device='cuda', dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True

    def measure(mode, forward):
        try:
            def run():
                forward(x)
                torch.cuda.synchronize()
            put('torch', torch.__version__, mode, sample(run))
        except Exception as error:
            put('torch', torch.__version__, mode, skipped=error)

    with torch.inference_mode():
        measure('eager', model)
        try:
            for _ in range(3):
                model(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model(x)
            measure('graph', lambda _: graph.replay())
        except Exception as error:
            put('torch', torch.__version__, 'graph', skipped=error)
        measure('compile+graph', torch.compile(model, mode='max-autotune'))


if options.device == 'cpu':
    onnx_runtime('cpu', ['CPUExecutionProvider'])
else:
    onnx_runtime('cuda', ['CUDAExecutionProvider'])
    onnx_runtime('tensorrt', ['TensorrtExecutionProvider'])
    if options.network:
        torch_modes()
