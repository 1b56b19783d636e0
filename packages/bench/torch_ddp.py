"""A rank of PyTorch's DistributedDataParallel, for `heddle bench scaling`, which starts it: python3 torch_ddp.py <job as JSON>

Rank 0 prints what it has measured. On GPUs the model is compiled and values travel by NCCL, on the CPU by gloo.
"""
import json, statistics, sys, time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from torch_cpu import network

CALLS, WARM_UP = 5, 2

job = json.loads(sys.argv[1])
cuda = job['device'].startswith('cuda')
device = torch.device(job['device'])
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group('nccl' if cuda else 'gloo')
torch.manual_seed(0)
x = torch.randn(job['batch'], *job['inputShape'], device=device)
y = torch.randint(10, (job['batch'],), device=device)
model = network(job['network'])[0].to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
parallel = DistributedDataParallel(model, device_ids=[device.index] if cuda else None) if dist.get_world_size() > 1 else model
forward = torch.compile(parallel) if cuda else parallel


def step():
    optimizer.zero_grad()
    cross_entropy(forward(x), y).backward()
    optimizer.step()


times = []
for round in range(-WARM_UP, job['rounds']):
    dist.barrier()
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        step()
    if cuda:
        torch.cuda.synchronize()
    if round >= 0:
        times.append((time.perf_counter() - start) * 1e6 / CALLS)
if dist.get_rank() == 0:
    print(json.dumps({'step': times, 'compute': [], 'exchange': []}))
# Rank 0 hosts what the others still need when they leave.
dist.barrier()
dist.destroy_process_group()
