"""PyTorch on the GPU, doing what `npx heddle bench kernels` and `train` do: one JSON object a line, for their --peer.

    python3 packages/bench/torch_gpu.py [--only matmul,memory,conv,norm,random,mlp,cnn,lenet] [--quick] > torch.jsonl

Needs torch. Every case runs in each mode that may be its fastest: eager, compile (torch.compile), graph (one CUDA graph,
ten calls of a kernel in it, a whole training step), compile+graph; --quick leaves compile out, which takes most of the
time. Matrix products and linear layers are strict fp32 unless the case says otherwise; convolutions may use tf32, which
is PyTorch's default, and cudnn.benchmark is on. `normal 1e8` is cuRAND, too, where its library is found.
"""
import argparse, ctypes, json, statistics, sys, time, warnings
import torch
import torch.nn.functional as F
from torch import nn

CALLS, ROUNDS, ROUND_US = 10, 7, 10_000
MODES = ['eager', 'compile', 'graph', 'compile+graph']


def put(case, mode, us, **more):
    print(json.dumps({'peer': 'torch', 'version': torch.__version__, 'case': case, 'mode': mode,
                      'us': float(f'{us:.4g}'), **more}), flush=True)


def attempt(case, mode, body):
    """A mode that does not work for a case is no reason to stop."""
    try:
        body()
    except Exception as error:
        print(json.dumps({'peer': 'torch', 'case': case, 'mode': mode, 'error': str(error)[:200]}), flush=True)


def device_us(run, calls=1):
    """Microseconds of a call: rounds of about 10 ms between two events, their median."""
    def round_us(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3 / times
    round_us(2)
    times = max(1, min(500, int(ROUND_US / max(round_us(2), 0.1))))
    round_us(times)
    return statistics.median(round_us(times) for _ in range(ROUNDS)) / calls


def loop_us(run, steps=200, rounds=5):
    """Microseconds of a step of a training loop: 200 between two synchronisations, the median of five rounds."""
    for _ in range(10):
        run()
    samples = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - begin) / steps * 1e6)
    return statistics.median(samples)


def recorded(run, calls=1):
    """The calls as one CUDA graph, warmed up on a stream of their own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return graph.replay


def kernel(case, fn, modes, library=None):
    """A function of no arguments, in each mode."""
    for mode in modes:
        def measure():
            torch.compiler.reset()
            f = torch.compile(fn) if 'compile' in mode else fn
            us = device_us(recorded(f, CALLS), CALLS) if 'graph' in mode else device_us(f)
            put(case, f'{library} {mode}' if library else mode, us)
        attempt(case, mode, measure)


def rand(*shape, **options):
    return torch.randn(*shape, device='cuda', **options)


def matmul(options):
    plain = [m for m in options.modes if 'compile' not in m]  # nothing to fuse: the library's kernel either way
    shapes = [(n, n, n) for n in (512, 1024, 2048, 4096, 8192)]
    for name, dtype in (('fp32', torch.float32), ('tf32', torch.float32), ('bf16', torch.bfloat16), ('fp16', torch.float16)):
        torch.backends.cuda.matmul.allow_tf32 = name == 'tf32'
        small = [(64, 784, 128), (64, 4608, 10)] if name == 'fp32' else []
        for m, k, n in shapes + small:
            a, b = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype)
            kernel(f'gemm {name} {n if m == n else f"{m}x{k}x{n}"}', lambda: a @ b, plain, 'cublas')
    torch.backends.cuda.matmul.allow_tf32 = False


def memory(options):
    x, r = rand(8192, 8192), rand(8192)
    cases = {'copy': lambda: x.clone(), 'softmax': lambda: torch.softmax(x, -1),
             'layernorm': lambda: F.layer_norm(x, (8192,)), 'relu(x*2+r)': lambda: torch.relu(x * 2 + r),
             'transpose': lambda: x.t().contiguous(), 'sum': lambda: x.sum(), 'column sum': lambda: x.sum(0)}
    for name, fn in cases.items():
        kernel(f'{name} 8192x8192 fp32', fn, [m for m in options.modes if 'graph' not in m])
    y = rand(64, 32, 24, 24)
    kernel('pool 64x32x24x24 float32', lambda: F.max_pool2d(torch.relu(y), 2), options.modes)


def conv(options):
    plain = [m for m in options.modes if 'compile' not in m]
    for n, c, size, k, padding in ((16, 3, 224, 64, 1), (256, 64, 32, 64, 1), (64, 1, 28, 16, 0), (64, 16, 26, 32, 0)):
        layer = nn.Conv2d(c, k, 3, padding=padding).cuda()
        x = rand(n, c, size, size, requires_grad=True)
        case = f'conv {n}x{c}x{size}x{size} k3 ->{k} float32 nchw'
        with torch.no_grad():
            kernel(f'{case} fwd', lambda: layer(x), plain, 'cudnn')
        g = torch.randn_like(layer(x))
        wanted = (x, layer.weight, layer.bias)
        y = layer(x)
        kernel(f'{case} bwd', lambda: torch.autograd.grad(y, wanted, g, retain_graph=True), ['eager'], 'cudnn')


def normalisation(options):
    shape = (256, 64, 32, 32)
    x, weight, bias = rand(*shape, requires_grad=True), rand(64, requires_grad=True), rand(64, requires_grad=True)
    mean, variance, g = torch.zeros(64, device='cuda'), torch.ones(64, device='cuda'), rand(*shape)
    norm = lambda: F.batch_norm(x, mean, variance, weight, bias, True)
    plain = [m for m in options.modes if 'graph' not in m]
    with torch.no_grad():
        kernel('batch norm 256x64x32x32 float32', norm, plain)
    y = norm()
    kernel('batch norm backward 256x64x32x32 float32',
           lambda: torch.autograd.grad(y, (x, weight, bias), g, retain_graph=True), ['eager'])


def random(options):
    out = torch.empty(100_000_000, device='cuda')
    kernel('normal 1e8', lambda: out.normal_(), ['eager'])
    kernel('uniform 1e8', lambda: out.uniform_(), ['eager'])

    def curand():
        library = curand_library()
        generator = ctypes.c_void_p()
        PHILOX = 161
        if library.curandCreateGenerator(ctypes.byref(generator), PHILOX) != 0:
            raise RuntimeError('curandCreateGenerator failed')
        library.curandSetStream(generator, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        count, mean, deviation = ctypes.c_size_t(out.numel()), ctypes.c_float(0), ctypes.c_float(1)
        address = ctypes.c_void_p(out.data_ptr())
        put('normal 1e8', 'curand',
            device_us(lambda: library.curandGenerateNormal(generator, address, count, mean, deviation)))
    attempt('normal 1e8', 'curand', curand)


def curand_library():
    """From CUDA's folder, or from the wheel that torch brings."""
    import glob, os
    nvidia = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), 'nvidia')
    found = ['libcurand.so', 'libcurand.so.10', *glob.glob(f'{nvidia}/**/libcurand.so.*', recursive=True)]
    for path in found:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise FileNotFoundError('libcurand')


def network(name):
    if name == 'mlp':
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    if name == 'cnn':
        return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(4608, 10))
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def train(name):
    def measure_all(options):
        rule = 'adam' if name == 'lenet' else 'sgd'
        for batch in (64, 256, 1024):
            x, y = rand(batch, 1, 28, 28), torch.randint(10, (batch,), device='cuda')
            for mode in options.modes:
                case = f'{name} bs{batch} {rule}'
                attempt(case, mode, lambda: put(case, mode, loop_us(training_step(name, rule, mode, x, y))))
    return measure_all


def training_step(name, rule, mode, x, y):
    torch.compiler.reset()
    model = network(name).cuda()
    graph = 'graph' in mode
    if rule == 'sgd':
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=graph)
    loss = lambda x, y: F.cross_entropy(model(x), y)
    loss = torch.compile(loss) if 'compile' in mode else loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(x, y).backward()
        optimizer.step()
    return recorded(step) if graph else step


GROUPS = {'matmul': matmul, 'memory': memory, 'conv': conv, 'norm': normalisation, 'random': random,
          'mlp': train('mlp'), 'cnn': train('cnn'), 'lenet': train('lenet')}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default=','.join(GROUPS), help=f'groups: {", ".join(GROUPS)}')
    parser.add_argument('--quick', action='store_true', help='without torch.compile')
    options = parser.parse_args()
    options.modes = [m for m in MODES if not (options.quick and 'compile' in m)]
    warnings.filterwarnings('ignore')
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    for name in options.only.split(','):
        print(name, file=sys.stderr)
        GROUPS[name](options)


if __name__ == '__main__':
    main()
