"""A rank of torch.distributed's all-reduce by NCCL, for `heddle bench collectives`: python3 torch_collectives.py <settings as JSON>

Rank 0 prints the milliseconds of each size, eager and in a CUDA graph.
"""
import json, sys

import torch
import torch.distributed as dist

from torch_gpu import recorded

ROUNDS, WARM_UP = 15, 3

settings = json.loads(sys.argv[1])
device = torch.device(settings['device'])
torch.cuda.set_device(device)
dist.init_process_group('nccl', device_id=device)


def measured(run, calls):
    times = []
    for round in range(-WARM_UP, ROUNDS):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        if round >= 0:
            times.append(begin.elapsed_time(end) / calls)
    return times


reports, graphs = [], []
for size in settings['sizes']:
    x = torch.randn(size // 4, device=device)
    calls = 200 if size < 1e7 else 30 if size <= 1e8 else 8
    run = lambda: dist.all_reduce(x)
    reports.append({'by': 'torch', 'bytes': size, 'milliseconds': measured(run, calls)})
    graphs.append(recorded(run))
    reports.append({'by': 'torch graph', 'bytes': size, 'milliseconds': measured(graphs[-1], calls)})
if dist.get_rank() == 0:
    print(json.dumps(reports), flush=True)
dist.barrier()
# A communicator waits for the graphs that use it.
graphs.clear()
dist.destroy_process_group()
