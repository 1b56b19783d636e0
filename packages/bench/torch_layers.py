"""PyTorch on the GPU, doing what `npx heddle bench layers` does: one JSON object a line, for its --peer.

    python3 packages/bench/torch_layers.py [--only layers,attention,losses,ops,axes,optimizers] [--quick] > torch.jsonl

Needs torch. Layers and losses: the result and the gradients of the input and of all weights; optimizers: an update of 25
million parameters, with the fused implementation where there is one. Every case runs eager, in one CUDA graph, and, unless
--quick, compiled inside such a graph; images also with channels last. Products are strict fp32, convolutions may use tf32,
as are the defaults of both.
"""
import argparse, json, sys, warnings
import torch
import torch.nn.functional as F
from torch import nn

from torch_gpu import device_us, rand, recorded

CALLS = 4  # in a graph


def measure(case, mode, make):
    """A mode that does not work for a case is no reason to stop."""
    line = {'peer': 'torch', 'version': torch.__version__, 'case': case, 'mode': mode}
    try:
        us = device_us(recorded(make(), CALLS), CALLS) if 'graph' in mode else device_us(make())
        line['us'] = float(f'{us:.4g}')
    except Exception as error:
        line['error'] = str(error)[:200]
    print(json.dumps(line), flush=True)


def integers(low, high, *shape):
    return torch.randint(low, high, shape, device='cuda')


def signs(*shape):
    return torch.where(torch.rand(*shape, device='cuda') < 0.5, -1.0, 1.0)


def grads(case, modes, fn, wanted):
    """The result of `fn` and the gradients of all `wanted`."""
    for mode in modes:
        def make():
            torch.compiler.reset()
            f = torch.compile(fn) if 'compile' in mode else fn
            upstream = torch.randn_like(f())
            return lambda: torch.autograd.grad(f(), wanted, upstream)
        measure(case, mode, make)


def layer(name, shape, module, modes, apply=lambda m, x: m(x)):
    module = module.cuda().train()
    formats = ['contiguous', 'channels_last'] if len(shape) == 4 else ['contiguous']
    for fmt in formats:
        last = fmt == 'channels_last'
        x = rand(*shape)
        if last:
            x, module = x.to(memory_format=torch.channels_last), module.to(memory_format=torch.channels_last)
        x.requires_grad = True
        case = f'{name} {"x".join(map(str, shape))}'
        grads(case, [m + ('-nhwc' if last else '') for m in modes], lambda: apply(module, x), (x, *module.parameters()))


def layers(modes):
    def add(name, shape, module, **options):
        print(name, file=sys.stderr)
        layer(name, shape, module, modes, **options)
    add('Linear(1024,4096)', (4096, 1024), nn.Linear(1024, 4096))
    add('Conv1d(128,128,5)', (64, 128, 1024), nn.Conv1d(128, 128, 5, padding=2))
    add('Conv2d(64,64,3)', (256, 64, 32, 32), nn.Conv2d(64, 64, 3, padding=1))
    add('Conv2d(128,128,3,groups=8)', (64, 128, 28, 28), nn.Conv2d(128, 128, 3, padding=1, groups=8))
    add('Conv2d(96,96,3,groups=96)', (64, 96, 56, 56), nn.Conv2d(96, 96, 3, padding=1, groups=96))
    add('Conv3d(32,32,3)', (8, 32, 16, 32, 32), nn.Conv3d(32, 32, 3, padding=1))
    add('ConvTranspose1d(128,64,4)', (64, 128, 512), nn.ConvTranspose1d(128, 64, 4, stride=2, padding=1))
    add('ConvTranspose2d(128,64,4)', (64, 128, 16, 16), nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1))
    add('MaxPool1d(2)', (256, 64, 4096), nn.MaxPool1d(2))
    add('MaxPool2d(2)', (256, 64, 64, 64), nn.MaxPool2d(2))
    add('MaxPool2d(3,2,1)', (64, 64, 112, 112), nn.MaxPool2d(3, stride=2, padding=1))
    add('AvgPool2d(2)', (256, 64, 64, 64), nn.AvgPool2d(2))
    add('AvgPool2d(3,2,1)', (64, 64, 112, 112), nn.AvgPool2d(3, stride=2, padding=1))
    add('AdaptiveAvgPool2d(1)', (256, 512, 14, 14), nn.AdaptiveAvgPool2d(1))
    add('AdaptiveAvgPool2d(7)', (256, 128, 28, 28), nn.AdaptiveAvgPool2d(7))
    add('AdaptiveMaxPool2d(7)', (256, 128, 28, 28), nn.AdaptiveMaxPool2d(7))
    add('BatchNorm1d', (65536, 256), nn.BatchNorm1d(256))
    add('BatchNorm2d', (256, 64, 32, 32), nn.BatchNorm2d(64))
    add('LayerNorm', (16384, 1024), nn.LayerNorm(1024))
    add('RMSNorm', (16384, 1024), nn.RMSNorm(1024))
    add('GroupNorm(32)', (64, 256, 28, 28), nn.GroupNorm(32, 256))
    add('InstanceNorm2d', (64, 64, 64, 64), nn.InstanceNorm2d(64, affine=True))
    add('Dropout', (16384, 1024), nn.Dropout(0.1))
    add('Dropout2d', (256, 64, 32, 32), nn.Dropout2d(0.1))
    add('GELU', (16384, 1024), nn.GELU())
    add('SiLU', (16384, 1024), nn.SiLU())
    add('Softmax', (16384, 1024), nn.Softmax(-1))
    add('GLU', (16384, 1024), nn.GLU())
    add('PReLU', (16384, 1024), nn.PReLU())
    for mode in ('nearest', 'bilinear', 'bicubic'):
        add(f'Upsample({mode})', (32, 64, 64, 64), nn.Upsample(scale_factor=2, mode=mode))
    add('PixelShuffle(2)', (64, 64, 64, 64), nn.PixelShuffle(2))
    add('ReflectionPad2d(2)', (64, 64, 64, 64), nn.ReflectionPad2d(2))
    add('Unfold(3)', (32, 32, 32, 32), nn.Unfold(3))
    first = lambda m, x: m(x)[0]
    for kind, of in (('RNN', nn.RNN), ('GRU', nn.GRU), ('LSTM', nn.LSTM)):
        add(f'{kind}(256,256)', (128, 64, 256), of(256, 256), apply=first)
    add('LSTM(128,512)', (64, 128, 128), nn.LSTM(128, 512), apply=first)
    add('MultiheadAttention(256,4)', (32, 128, 256), nn.MultiheadAttention(256, 4, batch_first=True),
        apply=lambda m, x: m(x, x, x, need_weights=False)[0])
    add('TransformerEncoderLayer(512,8)', (16, 256, 512),
        nn.TransformerEncoderLayer(512, 8, dropout=0, batch_first=True))
    table, indices = nn.Embedding(50000, 512).cuda(), integers(0, 50000, 64, 512)
    grads('Embedding(50000,512) 64x512', modes, lambda: table(indices), tuple(table.parameters()))


def attention(modes):
    """Causal, in bf16, with dropout and without, by the fastest of the backends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for b, h, t, d in ((8, 12, 1024, 64), (4, 16, 2048, 64), (4, 16, 2048, 128), (1, 16, 8192, 128), (32, 4, 128, 64)):
        q, k, v = (torch.randn(b, t, h, d, device='cuda', dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        size = f'{b}x{h}x{t}x{d} bf16'
        for dropout in (0.0, 0.1):
            name = 'attention causal' + (f', dropout {dropout}' if dropout else '')
            fn = lambda: F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, dropout_p=dropout).transpose(1, 2)
            for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
                print(name, size, backend.name, file=sys.stderr)
                tag = '-' + backend.name.split('_')[0].lower()
                with sdpa_kernel(backend):
                    for mode in modes[:2]:
                        def forward():
                            with torch.no_grad():
                                return fn()
                        measure(f'{name} {size}', mode + tag, lambda: forward)
                    grads(f'{name}, gradients {size}', [m + tag for m in modes[:2]], fn, (q, k, v))


def losses(modes):
    n, c, d = 8192, 1000, 512
    x, y, target, weight = rand(n, c, requires_grad=True), integers(0, c, n), torch.rand(n, c, device='cuda'), torch.rand(c, device='cuda')
    sign, ones = signs(n, c), signs(n)
    a, p, q = (rand(n, d, requires_grad=True) for _ in range(3))
    t, b, k, s = 128, 64, 64, 32
    steps, targets = rand(t, b, k, requires_grad=True), integers(1, k, b, s)
    long, short = torch.full((b,), t, device='cuda'), torch.full((b,), s, device='cuda')
    cases = {
        f'crossEntropy {n}x{c}': (lambda: F.cross_entropy(x, y), (x,)),
        f'crossEntropy(weights,smoothing) {n}x{c}': (lambda: F.cross_entropy(x, y, weight, label_smoothing=0.1), (x,)),
        f'nllLoss {n}x{c}': (lambda: F.nll_loss(x, y), (x,)),
        f'bceWithLogits {n}x{c}': (lambda: F.binary_cross_entropy_with_logits(x, target), (x,)),
        f'mse {n}x{c}': (lambda: F.mse_loss(x, target), (x,)),
        f'l1 {n}x{c}': (lambda: F.l1_loss(x, target), (x,)),
        f'huber {n}x{c}': (lambda: F.huber_loss(x, target), (x,)),
        f'smoothL1 {n}x{c}': (lambda: F.smooth_l1_loss(x, target), (x,)),
        f'hinge {n}x{c}': (lambda: torch.relu(1 - x * sign).mean(), (x,)),
        f'multiMargin {n}x{c}': (lambda: F.multi_margin_loss(x, y), (x,)),
        f'klDiv {n}x{c}': (lambda: F.kl_div(x, target, reduction='batchmean'), (x,)),
        f'cosineEmbedding {n}x{d}': (lambda: F.cosine_embedding_loss(a, p, ones), (a, p)),
        f'tripletMargin {n}x{d}': (lambda: F.triplet_margin_loss(a, p, q), (a, p, q)),
        f'ctcLoss {t}x{b}x{k}': (lambda: F.ctc_loss(steps.log_softmax(2), targets, long, short), (steps,)),
    }
    for case, (fn, wanted) in cases.items():
        print(case, file=sys.stderr)
        # These copy to the host, which no graph can hold, and a failed recording spoils the next ones.
        hosted = case.startswith(('ctcLoss', 'crossEntropy(weights'))
        grads(case, ['eager'] if hosted else modes, fn, wanted)


def ops(modes):
    x, y, index = rand(4096, 4096), rand(4096, 4096), integers(0, 4096, 4096, 4096)
    leaf = rand(4096, 4096, requires_grad=True)
    cases = {'cumsum rows': lambda: x.cumsum(1), 'cumsum columns': lambda: x.cumsum(0), 'sort rows': lambda: x.sort(1)[0],
             'topk(16) rows': lambda: x.topk(16)[0],
             'norm rows': lambda: torch.linalg.vector_norm(x, dim=1), 'scatterAdd rows': lambda: x.scatter_add(1, index, y)}
    for name, fn in cases.items():
        print(name, file=sys.stderr)
        for mode in modes:
            def make():
                torch.compiler.reset()
                return torch.compile(fn) if 'compile' in mode else fn
            measure(f'{name} 4096x4096', mode, make)
    grads('gather rows 4096x4096', modes, lambda: leaf.gather(1, index), (leaf,))


def axes(modes):
    """Reductions and norms along each axis of a matrix, and a copy of it."""
    def standardized(x, axis):
        centred = x - x.mean(axis, keepdim=True)
        return centred * (centred.square().mean(axis, keepdim=True) + 1e-5).rsqrt()
    functions = {
        'softmax': lambda x, axis: x.softmax(axis),
        'logSoftmax': lambda x, axis: x.log_softmax(axis),
        'logsumexp': lambda x, axis: x.logsumexp(axis),
        'layernorm': standardized,
        'rmsnorm': lambda x, axis: x * (x.square().mean(axis, keepdim=True) + 1e-5).rsqrt(),
        'sum': lambda x, axis: x.sum(axis),
        'variance': lambda x, axis: x.var(axis),
    }
    for side in (4096, 8192):
        for dtype in (torch.float32, torch.bfloat16):
            x = rand(side, side).to(dtype)
            size = f'{side}x{side}' + ('' if dtype == torch.float32 else ' bf16')
            cases = {'copy': lambda x: x.clone()}
            for name, fn in functions.items():
                for axis, along in ((1, 'rows'), (0, 'columns')):
                    cases[f'{name} {along}'] = lambda x, fn=fn, axis=axis: fn(x, axis)
            for name, fn in cases.items():
                print(name, size, file=sys.stderr)
                for mode in modes:
                    def make():
                        torch.compiler.reset()
                        f = torch.compile(fn) if 'compile' in mode else fn
                        return lambda: f(x)
                    measure(f'{name} {size}', mode, make)


def optimizers(modes):
    shapes = [(1024, 1024), (1024,)] * 24
    rules = {
        'SGD': lambda p, f: torch.optim.SGD(p, lr=1e-3, **f),
        'SGD(momentum)': lambda p, f: torch.optim.SGD(p, lr=1e-3, momentum=0.9, **f),
        'Adam': lambda p, f: torch.optim.Adam(p, lr=1e-3, capturable=True, **f),
        'AdamW': lambda p, f: torch.optim.AdamW(p, lr=1e-3, capturable=True, **f),
        'RMSprop': lambda p, f: torch.optim.RMSprop(p, lr=1e-3, capturable=True, **f),
        'Adagrad': lambda p, f: torch.optim.Adagrad(p, lr=1e-3, **f),
        'Muon': lambda p, f: torch.optim.Muon([x for x in p if x.dim() == 2], lr=1e-3),
    }
    for name, rule in rules.items():
        print(name, file=sys.stderr)
        for mode in modes:
            for kind in ('fused', 'foreach'):
                def make():
                    torch.compiler.reset()
                    params = [rand(*shape, requires_grad=True) for shape in shapes]
                    for p in params:
                        p.grad = torch.randn_like(p)
                    step = rule(params, {kind: True}).step
                    step()
                    return torch.compile(step) if 'compile' in mode else step
                measure(f"{name} 25M", f'{mode}-{kind}', make)


GROUPS = {'layers': layers, 'attention': attention, 'losses': losses, 'ops': ops, 'axes': axes, 'optimizers': optimizers}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default=','.join(GROUPS), help=f'groups: {", ".join(GROUPS)}')
    parser.add_argument('--quick', action='store_true', help='without torch.compile')
    options = parser.parse_args()
    modes = ['eager', 'graph'] + ([] if options.quick else ['compile+graph'])
    warnings.filterwarnings('ignore')
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    for name in options.only.split(','):
        GROUPS[name](modes)


if __name__ == '__main__':
    main()
