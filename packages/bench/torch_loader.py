"""PyTorch's DataLoader, feeding the trainings that `npx heddle bench feed` measures: one JSON object a line, for its --peer.

    python3 packages/bench/torch_loader.py [--only lenet5-64,resnet18-256] [--steps 1000] [--workers 4] > torch.jsonl

Needs torch. Images are bytes in memory; batches go to the device as bytes, from pinned memory, and become f32 there. Three
ways: `resident` gathers batches on the device, `host` is a DataLoader without workers, `workers` one with --workers
persistent ones. Each in two modes: `eager`, and `graph`, where a training step is one CUDA graph. µs of a step over whole
epochs, the best of three runs, without the first epoch; busy is what part of it a step of the resident training takes.
"""
import argparse, json, sys, time
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROUNDS, EPOCHS = 3, 3


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        same = stride == 1 and channels == out
        self.short = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels = 64
    for i, out in enumerate([64, 128, 256, 512]):
        layers += [Block(channels, out, 1 if i == 0 else 2), Block(out, out, 1)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def lenet5():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


CASES = {f'lenet5-{batch}': (lenet5, (1, 28, 28), batch) for batch in (64, 256, 1024)}
CASES['resnet18-256'] = (resnet18, (3, 32, 32), 256)


class Images(Dataset):
    """Bytes in memory."""
    def __init__(self, count, shape):
        self.inputs = torch.randint(256, (count, *shape), dtype=torch.uint8)
        self.labels = torch.arange(count) % 10

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.inputs[i], self.labels[i]


def resident_batches(images, batch, device):
    """The batches of epoch after epoch, gathered on the device."""
    inputs, labels = images.inputs.to(device), images.labels.to(device)

    def epoch():
        order = torch.randperm(len(images), device=device)
        for i in range(len(images) // batch):
            rows = order[i * batch:(i + 1) * batch]
            yield inputs[rows], labels[rows]
    return epoch


def host_batches(images, batch, device, workers):
    loader = DataLoader(images, batch_size=batch, shuffle=True, drop_last=True, num_workers=workers,
                        pin_memory=device != 'cpu', persistent_workers=workers > 0)

    def epoch():
        for inputs, labels in loader:
            yield inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
    return epoch


def training_step(build, shape, batch, device, mode):
    """A function that trains on a batch of bytes and labels."""
    model = build().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=mode == 'graph', fused=device != 'cpu')

    def step(inputs, labels):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs.float().div(255)), labels).backward()
        optimizer.step()
    if mode == 'eager':
        return step
    inputs = torch.zeros(batch, *shape, dtype=torch.uint8, device=device)
    labels = torch.zeros(batch, dtype=torch.long, device=device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(inputs, labels)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(inputs, labels)

    def replay(new_inputs, new_labels):
        inputs.copy_(new_inputs)
        labels.copy_(new_labels)
        graph.replay()
    return replay


def step_us(epoch, step, device):
    """Microseconds of a step, without the first epoch."""
    wait = torch.cuda.synchronize if device != 'cpu' else lambda: None
    steps = 0
    for number in range(EPOCHS):
        if number == 1:
            wait()
            begin = time.perf_counter()
        for inputs, labels in epoch():
            step(inputs, labels)
            steps += number > 0
    wait()
    return (time.perf_counter() - begin) / steps * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', default=','.join(CASES))
    parser.add_argument('--steps', type=int, default=1000, help='of an epoch, unless it would take more than 60,000 images')
    parser.add_argument('--rounds', type=int, default=ROUNDS)
    parser.add_argument('--workers', type=int, default=4)
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    for case in options.only.split(','):
        build, shape, batch = CASES[case]
        images = Images(max(batch, min(60_000, options.steps * batch)), shape)
        ways = {'resident': resident_batches(images, batch, options.device),
                'host': host_batches(images, batch, options.device, 0),
                'workers': host_batches(images, batch, options.device, options.workers)}
        for mode in ['eager', 'graph'] if options.device != 'cpu' else ['eager']:
            step = training_step(build, shape, batch, options.device, mode)
            best = {way: float('inf') for way in ways}
            for _ in range(options.rounds):
                for way, epoch in ways.items():
                    best[way] = min(best[way], step_us(epoch, step, options.device))
            for way, us in best.items():
                workers = options.workers if way == 'workers' else 0
                print(json.dumps({'peer': 'torch', 'version': torch.__version__, 'case': case, 'mode': mode, 'way': way,
                                  'workers': workers, 'us': float(f'{us:.4g}'),
                                  'busy': float(f'{best["resident"] / us:.3g}')}), flush=True)


if __name__ == '__main__':
    sys.exit(main())
