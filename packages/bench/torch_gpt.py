"""PyTorch training the language model of `heddle train gpt`: same sizes, recipe, text and split. One JSON object a line.

    python3 packages/bench/torch_gpt.py --text book.txt.gz [--mode eager|compile] [--autocast bf16] [--steps 200] > gpt.jsonl

Needs torch. After every epoch: the mean training loss, and the loss on the held-out text, in nats per character. With
--steps only that many steps of the training are run, with the schedule of all of it, and their losses are printed. On a
GPU the optimizer is fused; products are strict fp32, unless --tf32 or --autocast is given.
"""
import argparse, gzip, json, math, statistics, sys, time
import torch
import torch.nn.functional as F
from torch import nn

STD = 0.02
EVALUATION_WINDOWS = 32


class GPT(nn.Module):
    def __init__(self, vocabulary, options):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, options.dim)
        self.positions = nn.Embedding(options.context, options.dim)
        self.dropout = nn.Dropout(options.dropout)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(options.dim, options.heads, 4 * options.dim, options.dropout, 'gelu',
                                       batch_first=True, norm_first=True) for _ in range(options.depth))
        self.norm = nn.LayerNorm(options.dim)
        self.head = nn.Linear(options.dim, vocabulary, bias=False)
        self.register_buffer('mask', nn.Transformer.generate_square_subsequent_mask(options.context))
        for name, parameter in self.named_parameters():
            branch = name.endswith(('out_proj.weight', 'linear2.weight'))
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=STD / math.sqrt(2 * options.depth) if branch else STD)
            elif name.endswith('bias'):
                nn.init.zeros_(parameter)

    def forward(self, characters):
        places = torch.arange(characters.shape[1], device=characters.device)
        x = self.dropout(self.tokens(characters) + self.positions(places))
        for layer in self.layers:
            x = layer(x, self.mask, is_causal=True)
        return self.head(self.norm(x))


def windows(codes, context):
    """Side by side; the last one ends where the text ends."""
    last = len(codes) - context - 1
    starts = [min(i * context, last) for i in range(math.ceil(last / context) + 1)]
    at = torch.tensor(starts)[:, None] + torch.arange(context)
    return codes[at], codes[at + 1]


def read(options):
    opened = gzip.open if open(options.text, 'rb').read(2) == b'\x1f\x8b' else open
    with opened(options.text, 'rt', encoding='utf-8', newline='') as file:
        text = file.read()
    places = {character: i for i, character in enumerate(sorted(set(text)))}
    codes = torch.tensor([places[character] for character in text])
    held = max(1, round(0.1 * len(codes) / options.context))
    end = len(codes) - held * options.context - 1
    return len(places), windows(codes[:end], options.context), windows(codes[end:], options.context)


def put(**fields):
    print(json.dumps({'peer': 'torch', 'version': torch.__version__, **fields}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--text', required=True)
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--mode', choices=['eager', 'compile'], default='compile' if torch.cuda.is_available() else 'eager')
    parser.add_argument('--autocast', choices=['bf16', 'f16'])
    parser.add_argument('--tf32', action='store_true')
    parser.add_argument('--threads', type=int)
    parser.add_argument('--steps', type=int, default=None)
    for name, default in (('seed', 0), ('epochs', 10), ('batch-size', 64), ('context', 128), ('dim', 256), ('heads', 4),
                          ('depth', 4)):
        parser.add_argument(f'--{name}', type=int, default=default)
    for name, default in (('lr', 1e-3), ('dropout', 0.1), ('clip', 1.0), ('warmup', 0.05)):
        parser.add_argument(f'--{name}', type=float, default=default)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    torch.manual_seed(options.seed)
    train(options)


def train(options):
    vocabulary, train_set, test_set = read(options)
    (x, y), (test_x, test_y) = ([t.to(options.device) for t in pair] for pair in (train_set, test_set))
    model = GPT(vocabulary, options).to(options.device)
    isCuda = options.device.startswith('cuda')
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, fused=isCuda)
    forward = torch.compile(model) if options.mode == 'compile' else model
    dtype = {'bf16': torch.bfloat16, 'f16': torch.float16, None: torch.float32}[options.autocast]
    scaler = torch.amp.GradScaler(options.device, enabled=options.autocast == 'f16')
    per_epoch = math.ceil(len(x) / options.batch_size)
    steps = options.epochs * per_epoch
    ramp = round(options.warmup * steps)

    def factor(step):
        if step < ramp:
            return step / (options.warmup * steps)
        return 0.5 * (1 + math.cos(math.pi * (step - ramp) / (steps - ramp)))

    def loss_of(inputs, targets):
        with torch.autocast(options.device.split(':')[0], dtype=dtype, enabled=options.autocast is not None):
            return F.cross_entropy(forward(inputs).flatten(0, 1), targets.flatten())

    def step(number, rows):
        for group in optimizer.param_groups:
            group['lr'] = options.lr * factor(number)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x[rows], y[rows])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def held_out():
        model.eval()
        with torch.no_grad():
            total = sum(loss_of(a, b).double() * len(a)
                        for a, b in zip(test_x.split(EVALUATION_WINDOWS), test_y.split(EVALUATION_WINDOWS)))
        model.train()
        return (total / len(test_x)).item()

    parameters = sum(p.numel() for p in model.parameters())
    facts = {'case': 'gpt', 'mode': options.mode, 'device': options.device, 'autocast': options.autocast,
             'parameters': parameters, 'seed': options.seed}
    if options.steps:
        begin, losses, times = None, [], []
        for number, rows in enumerate(torch.randperm(len(x), device=options.device).split(options.batch_size)):
            if number == options.steps:
                break
            begin = time.perf_counter()
            losses.append(step(number, rows).item())
            times.append(time.perf_counter() - begin)
        put(**facts, losses=losses, ms=1e3 * statistics.median(times))
        return
    number, began = 0, time.perf_counter()
    for epoch in range(options.epochs):
        total, begin = torch.zeros((), device=options.device, dtype=torch.float64), time.perf_counter()
        for rows in torch.randperm(len(x), device=options.device).split(options.batch_size):
            total += step(number, rows) * len(rows)
            number += 1
        mean = (total / len(x)).item()
        seconds = time.perf_counter() - begin
        put(**facts, epoch=epoch + 1, loss=mean, test=held_out(), seconds=seconds,
            ms=1e3 * seconds / per_epoch, elapsed=time.perf_counter() - began)


if __name__ == '__main__':
    main()
