"""A rank of PyTorch's DistributedDataParallel, for `heddle bench scaling`, which starts it: python3 torch_ddp.py <job as JSON>

Rank 0 prints what it has measured, a line for each batch. On GPUs the model is compiled, the optimizer is fused and values
travel by NCCL; on the CPU by gloo.
"""
import json, sys, time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import torch_cpu

WARM_UP = 3
START = time.perf_counter()

job = json.loads(sys.argv[1])
cuda = job['device'].startswith('cuda')
device = torch.device(job['device'])
if cuda:
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = True
dist.init_process_group('nccl' if cuda else 'gloo', **({'device_id': device} if cuda else {}))


def resnet18():
    import torchvision
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return model


def gpt2():
    from torch_large import GPT
    return GPT(50304, 768, 12, 12, 1024)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=cuda)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3, fused=cuda)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, fused=cuda)


def images(*shape):
    return lambda batch: (torch.randn(batch, *shape, device=device), torch.randint(10, (batch,), device=device))


def text(batch):
    return tuple(torch.randint(50304, (batch, 1024), device=device) for _ in range(2))


# The network, its optimizer, its data, and whether products are in bf16.
NETWORKS = {
    **{name: (lambda name=name: torch_cpu.network(name)[0], adam, images(1, 28, 28), False) for name in ('mlp', 'lenet5', 'cnn')},
    'resnet18-tf32': (resnet18, sgd, images(3, 32, 32), False),
    'resnet18-bf16': (resnet18, sgd, images(3, 32, 32), True),
    'gpt2-bf16': (gpt2, adamw, text, True),
}
build, optimizer_of, data, bf16 = NETWORKS[job['network']]
if job['network'].endswith('tf32'):
    torch.backends.cuda.matmul.allow_tf32 = True
layout = torch.channels_last if cuda and job['network'].startswith('resnet') else torch.contiguous_format


torch.manual_seed(0)
model = build().to(device).to(memory_format=layout)
optimizer = optimizer_of(model.parameters())
parallel = model if dist.get_world_size() == 1 else DistributedDataParallel(
    model, device_ids=[device.index] if cuda else None, gradient_as_bucket_view=True)
# Compiled once for each number of examples: kernels for any number are slower.
forward = torch.compile(parallel, dynamic=False) if cuda else parallel


def note(text):
    """Progress, which `heddle bench scaling` shows."""
    if dist.get_rank() == 0:
        print(f"-- torch {job['network']}, {dist.get_world_size()} ranks: {text}", file=sys.stderr, flush=True)


def measured(batch):
    x, y = data(batch)
    x = x.contiguous(memory_format=layout) if x.dim() == 4 else x

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(forward(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()

    start = time.perf_counter()
    step()
    if cuda:
        torch.cuda.synchronize()
    note(f'first step of {batch} examples after {time.perf_counter() - start:.0f} s')
    times = []
    for round in range(-WARM_UP, job['rounds']):
        dist.barrier()
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(job['calls']):
            step()
        if cuda:
            torch.cuda.synchronize()
        if round >= 0:
            times.append((time.perf_counter() - start) * 1e6 / job['calls'])
    return times


note(f'joined after {time.perf_counter() - START:.0f} s')
for batch in job['batches']:
    times = measured(batch)
    if dist.get_rank() == 0:
        print(json.dumps({'batch': batch, 'step': times, 'compute': [], 'exchange': [], 'buckets': []}), flush=True)
# Rank 0 hosts what the others still need when they leave.
dist.barrier()
dist.destroy_process_group()
