"""PyTorch on the GPU, doing what `npx heddle bench large` and its large training steps do: one JSON object a line, for --peer.

    python3 packages/bench/torch_large.py [--only products,convolutions,train] [--quick] > torch.jsonl

Needs torch, for the training steps torchvision. Products and convolutions run eager and in a CUDA graph, convolutions
contiguous and with channels last, with cudnn.benchmark; the product with bias and GELU and the training steps also compiled
inside such a graph, unless --quick. Optimizers are fused.
"""
import argparse, json, warnings
import torch
import torch.nn.functional as F
from torch import nn

from torch_gpu import device_us, recorded

DTYPES = {'bf16': torch.bfloat16, 'f16': torch.float16, 'tf32': torch.float32}
PRODUCTS = [(2048,) * 3, (4096,) * 3, (8192,) * 3, (8192, 1024, 4096), (256, 4096, 11008)]
# (channels, side, outputs, kernel, stride)
LAYERS = {
    'resnet18': (256, [(3, 32, 64, 3, 1), (64, 32, 64, 3, 1), (64, 32, 128, 3, 2), (64, 32, 128, 1, 2), (128, 16, 128, 3, 1),
                       (128, 16, 256, 3, 2), (256, 8, 256, 3, 1), (256, 8, 512, 3, 2), (512, 4, 512, 3, 1)]),
    'resnet50': (64, [(3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 128, 1, 1),
                      (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (128, 28, 128, 3, 1), (512, 28, 256, 1, 1),
                      (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1),
                      (512, 7, 512, 3, 1), (512, 7, 2048, 1, 1)]),
    'depthwise': (64, [(96, 56, 96, 3, 1), (144, 56, 144, 3, 2), (384, 14, 384, 3, 1), (96, 56, 96, 7, 1)]),
}


def measure(case, mode, make, calls=1):
    """A mode that does not work for a case is no reason to stop."""
    line = {'peer': 'torch', 'version': torch.__version__, 'case': case, 'mode': mode}
    try:
        line['us'] = float(f'{device_us(make(), calls):.4g}')
    except Exception as error:
        line['error'] = str(error)[:200]
    print(json.dumps(line), flush=True)


def normal(dtype, *shape, **options):
    return torch.randn(*shape, device='cuda', **options).to(dtype)


def products(modes):
    for name, dtype in DTYPES.items():
        torch.backends.cuda.matmul.allow_tf32 = name == 'tf32'
        for m, k, n in PRODUCTS:
            a, b = normal(dtype, m, k), normal(dtype, k, n)
            case = f'gemm {name} {m}x{k}x{n}'
            measure(case, 'eager', lambda: lambda: a @ b)
            measure(case, 'graph', lambda: recorded(lambda: a @ b, 4), 4)
            if name != 'tf32' and m == k == n == 4096:
                bias = normal(dtype, n)
                activated = lambda: F.gelu(torch.addmm(bias, a, b))
                case = f'gemm+bias+gelu {name} {m}x{k}x{n}'
                measure(case, 'eager', lambda: activated)
                if 'compile' in modes:
                    compiled = torch.compile(activated)
                    measure(case, 'compile+graph', lambda: recorded(compiled, 4), 4)
    torch.backends.cuda.matmul.allow_tf32 = False


def convolutions(_):
    for name in ('bf16', 'tf32'):
        for network, (batch, layers) in LAYERS.items():
            for c, side, out, kernel, stride in layers:
                groups = c if network == 'depthwise' else 1
                size = f'{name} {network} {batch}x{c}x{side}x{side} -> {out} k{kernel} s{stride} g{groups}'
                for mode, layout in (('graph', torch.contiguous_format), ('graph channels_last', torch.channels_last)):
                    x = normal(DTYPES[name], batch, c, side, side).to(memory_format=layout)
                    w = normal(DTYPES[name], out, c // groups, kernel, kernel).to(memory_format=layout)
                    with torch.no_grad():
                        forward = lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)
                        g = torch.randn_like(forward())
                        backward = lambda wanted: torch.ops.aten.convolution_backward(
                            g, x, w, None, [stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], groups, wanted)
                        measure(f'conv fwd {size}', mode, lambda: recorded(forward, 4), 4)
                        if c > 3:
                            measure(f'conv dgrad {size}', mode, lambda: recorded(lambda: backward((True, False, False)), 4), 4)
                        measure(f'conv wgrad {size}', mode, lambda: recorded(lambda: backward((False, True, False)), 4), 4)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, words, dim, heads, depth, length):
        super().__init__()
        self.words, self.places = nn.Embedding(words, dim), nn.Parameter(torch.randn(length, dim) * 0.02)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) + self.places)))


def step_us(case, modes, build, batch, optimizer, autocast):
    layouts = {'': torch.contiguous_format}
    if batch[0].dim() == 4:
        layouts[' channels_last'] = torch.channels_last
    for mode in modes:
        for suffix, layout in layouts.items():
            def make():
                torch._dynamo.reset()
                model = build().cuda().to(memory_format=layout)
                update = optimizer(model.parameters(), mode)
                x, y = batch[0].to(memory_format=layout) if batch[0].dim() == 4 else batch[0], batch[1]

                def loss(x, y):
                    with torch.autocast('cuda', dtype=torch.bfloat16, enabled=autocast):
                        return F.cross_entropy(model(x).flatten(0, -2), y.flatten())
                forward = torch.compile(loss) if 'compile' in mode else loss

                def step():
                    forward(x, y).backward()
                    update.step()
                    update.zero_grad(set_to_none=True)
                return recorded(step, 1) if 'graph' in mode else step
            measure(case, mode + suffix, make)
            torch.cuda.empty_cache()


def train(modes):
    import torchvision
    steps = ['eager', 'graph', *(['compile+graph'] if 'compile' in modes else [])]
    sgd = lambda p, mode: torch.optim.SGD(p, lr=0.01, momentum=0.9, fused=True)
    adamw = lambda p, mode: torch.optim.AdamW(p, lr=1e-3, fused=True, capturable='graph' in mode)
    labels = lambda classes, *shape: torch.randint(0, classes, shape, device='cuda')

    def resnet18():
        model = torchvision.models.resnet18(num_classes=10)
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
        return model
    images = normal(torch.float32, 256, 3, 32, 32), labels(10, 256)
    step_us('train resnet18 32x32 bs256 bf16', steps, resnet18, images, sgd, True)
    step_us('train resnet18 32x32 bs256 tf32', steps, resnet18, images, sgd, False)
    images = normal(torch.float32, 64, 3, 224, 224), labels(1000, 64)
    step_us('train resnet50 224x224 bs64 bf16', steps, torchvision.models.resnet50, images, sgd, True)
    text = labels(256, 32, 128), labels(256, 32, 128)
    small = lambda: GPT(256, 256, 4, 4, 128)
    step_us('train gpt d256 l4 t128 bs32 f32', steps, small, text, adamw, False)
    step_us('train gpt d256 l4 t128 bs32 bf16', steps, small, text, adamw, True)
    text = labels(50304, 8, 1024), labels(50304, 8, 1024)
    step_us('train gpt2-small t1024 bs8 bf16', steps, lambda: GPT(50304, 768, 12, 12, 1024), text, adamw, True)


GROUPS = {'products': products, 'convolutions': convolutions, 'train': train}

if __name__ == '__main__':
    warnings.filterwarnings('ignore')
    torch.backends.cudnn.benchmark = True
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', default=','.join(GROUPS), help='groups, separated by commas')
    parser.add_argument('--quick', action='store_true', help='without torch.compile')
    options = parser.parse_args()
    for name in options.only.split(','):
        GROUPS[name]([] if options.quick else ['compile'])
