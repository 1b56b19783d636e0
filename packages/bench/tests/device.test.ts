/** `heddle bench kernels`, `bench train` and `profile` on tiny budgets. No figure is judged. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { jit, tensor, useDevice } from 'heddle';
import { circumstances, spreadOf, writeResults } from 'heddle/internal/cli/figures.js';
import { profileReport, profileStep } from 'heddle/internal/cli/profile.js';
import { ArgumentError, FileError } from 'heddle/internal/core/errors.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { rooflineChart } from 'heddle-look';
import { chartOf, ladderChart } from '../src/chart.js';
import { runConvBench } from '../src/conv.js';
import { type DeviceResults, runKernelsBench, runTrainBench } from '../src/device.js';
import { kernelCases, TRAIN_CASES, unnamedTrainCases } from '../src/device-cases.js';
import { layerCases } from '../src/layer-cases.js';
import { runMatmulBench } from '../src/matmul.js';
import { runMnistBench } from '../src/mnist.js';
import { type DevicePeers, readDevicePeers } from '../src/peers.js';
import {
  kernelsReport,
  mnistReport,
  productsReport,
  startReport,
  trainReport,
  transposeReport,
} from '../src/report.js';
import { runStartBench } from '../src/start.js';
import { runTransposeBench } from '../src/transpose.js';
import { WARPGROUP_LADDER } from '../src/warpgroup-ladder.js';

useDevice('cpu');

const folder = await mkdtemp(join(tmpdir(), 'heddle-device-bench-'));
after(async () => {
  await closeDevices();
  await rm(folder, { recursive: true });
});

/** How many bars a chart has. */
const barsOf = (svg: string): number => svg.match(/<path d="[^"]*" fill="#(3b6ea6|fa5b02)"/g)?.length ?? 0;

const line = (of: object): string => `${JSON.stringify({ peer: 'torch', ...of })}\n`;

test("a peer's best mode counts, and lines that say why a mode failed are passed over", async () => {
  const path = join(folder, 'peer.jsonl');
  await writeFile(
    path,
    line({ case: 'a', mode: 'eager', us: 9 }) +
      line({ case: 'a', mode: 'graph', us: 3, version: '2' }) +
      line({ case: 'a', mode: 'compile', us: 5 }) +
      line({ case: 'b', mode: 'compile', error: 'out of luck' }),
  );
  const peers = await readDevicePeers(path);
  assert.deepEqual([...peers], [['a', { peer: 'torch', version: '2', mode: 'graph', us: 3 }]]);
  await writeFile(
    path,
    line({ case: 'a', mode: 'eager', us: 9 }) + line({ case: 'a', mode: 'eager', us: -1 }),
  );
  await assert.rejects(readDevicePeers(path), /line 2 is not a figure: expected .* peer, case, mode, us/);
  await assert.rejects(readDevicePeers(join(folder, 'none')), FileError);
});

test('every case has a name of its own, and so has what it is compared with', () => {
  for (const cases of [kernelCases(false), kernelCases(true), layerCases(true), TRAIN_CASES]) {
    for (const key of ['id', 'title', 'peer'] as const)
      assert.equal(new Set(cases.map((c) => c[key])).size, cases.length, key);
  }
});

test('networks that take minutes, or more memory than there may be, are measured where they are named', () => {
  const networks = (large: boolean): string[] => [
    ...new Set(unnamedTrainCases(large).map(({ id }) => id.split('-')[0]!)),
  ];
  assert.deepEqual(networks(false), ['mlp', 'cnn', 'lenet5']);
  assert.deepEqual(networks(true), ['mlp', 'cnn', 'lenet5', 'resnet18', 'gpt']);
  assert.ok(['resnet50', 'gpt2'].every((name) => TRAIN_CASES.some(({ id }) => id.startsWith(`${name}-`))));
});

test('kernels: rates follow from the time, and no copy or product is above its ceiling', async () => {
  const peers: DevicePeers = new Map([
    ['gemm fp32 64x784x128', { peer: 'torch', mode: 'eager', us: 10 }],
    ['copy 2048x2048 fp32', { peer: 'torch', mode: 'eager', us: 500 }],
  ]);
  const results = await runKernelsBench({ only: ['matmul-f32-64x784x128', 'copy', 'sum'], peers });
  assert.deepEqual(
    results.measurements.map((m) => m.case),
    ['copy-2048', 'sum-2048', 'matmul-f32-64x784x128'],
  );
  for (const m of results.measurements) {
    assert.ok(m.min > 0 && m.min <= m.median && m.median <= m.p90 && m.launches >= 1, m.case);
    // A sum only reads: on processors whose cache holds its values, that takes less time than a copy of as many bytes.
    const most = m.case === 'sum-2048' ? Number.POSITIVE_INFINITY : 1.001;
    assert.ok(m.ofCeiling! > 0 && m.ofCeiling! <= most, `${m.case}: ${m.ofCeiling}`);
  }
  const [copy, sum, product] = results.measurements as [
    DeviceResults['measurements'][number],
    DeviceResults['measurements'][number],
    DeviceResults['measurements'][number],
  ];
  const near = (a: number, b: number): void => assert.ok(Math.abs(a - b) <= 2e-3 * b, `${a} ≈ ${b}`);
  near(copy.gigabytes!, (2 * 4 * 2048 ** 2) / copy.median / 1e3);
  near(product.gflops!, (2 * 64 * 784 * 128) / product.median / 1e3);
  near(product.peer!.ratio, product.median / 10);
  assert.ok(results.ceilings!.copy >= (2 * 4 * 2048 ** 2) / 500 / 1e3 || copy.median <= 500);
  assert.equal(sum.peer, undefined);
  const report = kernelsReport(results);
  assert.match(report, /^workload +µs +min +FLOP\/s +B\/s +of ceiling +peer, µs +its best +ratio$/m);
  assert.match(report, /^sum, 2048²( +[\d.]+( G)?){3,4} +[\d.]+ %$/m);
  assert.match(chartOf(results), /^<svg .*times as fast as the best of torch.*64 × 784 × 128.*<\/svg>\n$/s);
  assert.equal(barsOf(chartOf(results)), 2);
  const alone = { ...results, measurements: [sum] };
  assert.match(chartOf(alone), /share of what the ceilings/);
});

test('layers: gradients, a loss, an op and an optimizer are timed', async () => {
  const only = ['PReLU', 'mse', 'cumsum-columns', 'AdamW'];
  const { benchmark, measurements } = await runKernelsBench({ only }, 'layers');
  assert.equal(benchmark, 'layers');
  assert.deepEqual(
    measurements.map(({ title }) => title),
    ['PReLU 2048x1024', 'mse 1024x1000', 'cumsum columns 512x4096', 'AdamW 3M'],
  );
  for (const m of measurements) assert.ok(m.min > 0 && m.launches >= 1, m.case);
});

test('matmul: every rung of the ladder, the product in each precision, then the peer', async () => {
  useDevice('sim');
  const peers: DevicePeers = new Map([['gemm fp32 16', { peer: 'torch', mode: 'eager', us: 5 }]]);
  const results = await runMatmulBench({ sizes: [16], peers });
  useDevice('cpu');
  const rungs = results.steps.map((s) => s.rung);
  assert.deepEqual(rungs.slice(0, 2), ['naive', 'coalesced']);
  assert.deepEqual(rungs.slice(-5), [
    'matmul, f32',
    'matmul, tf32',
    'matmul, bf16',
    'matmul, f16',
    'torch eager, f32',
  ]);
  assert.ok(results.steps.every((s) => s.median > 0 && Math.abs(s.ofPeer! * s.median - 5) < 0.01));
  assert.match(productsReport(results), /^torch eager, f32 +16³ +5\.00 +1\.6 G +100\.00 %$/m);
  const chart = ladderChart(results);
  // The chart compares like with like: what multiplies in f32.
  const bf16Rungs = results.steps.filter((s) => s.arithmetic === 'bf16').map((s) => s.rung);
  assert.deepEqual(bf16Rungs, Object.keys(WARPGROUP_LADDER));
  assert.equal(barsOf(chart), rungs.filter((r) => !bf16Rungs.includes(r) && !/tf32|f16/.test(r)).length);
  assert.match(chart, /the ladder at 16³, f32.*>rate \(TFLOP\/s\)<.*>the fastest peer</s);
  await assert.rejects(runMatmulBench(), /the ladder is for GPUs, cpu is none/);
});

test('conv: the rungs that are asked for, then the peer', async () => {
  useDevice('sim');
  const peers: DevicePeers = new Map([['conv ladder f32 1', { peer: 'cudnn', mode: 'direct', us: 5 }]]);
  const only = ['im2col', 'conv2d, bf16', 'conv2d, channels last, bf16'];
  const results = await runConvBench({ sizes: [1], only, peers }, (channels) => ({
    ...{ images: 1, channels, outputs: 1, side: 8 },
  }));
  await assert
    .rejects(
      runConvBench({ only: ['imag'] }),
      /no rung is called 'imag'\. Expected one of: naive · im2col \+ product/,
    )
    .finally(() => useDevice('cpu'));
  assert.deepEqual(
    results.steps.map(({ rung, size }) => [rung, size]),
    [
      ['im2col + product', 1],
      ['conv2d, bf16', 1],
      ['conv2d, channels last, bf16', 1],
      ['cudnn direct, f32', 1],
    ],
  );
  assert.match(productsReport(results), /^cudnn direct, f32 +1 +5\.00 +[\d.]+ \w +100\.00 %$/m);
  assert.match(ladderChart(results), /the ladder at 1 channels, f32/);
  await assert.rejects(runConvBench(), /the ladder is for GPUs, cpu is none/);
});

test('transpose: a copy, every rung of the ladder, what the scheduler writes, then the peer', async () => {
  useDevice('sim');
  const peers: DevicePeers = new Map([['transpose 64x64 fp32', { peer: 'torch', mode: 'eager', us: 5 }]]);
  const results = await runTransposeBench({ sizes: [64], peers });
  const some = await runTransposeBench({ sizes: [64], only: ['tiled'] });
  assert.deepEqual(
    some.steps.map((s) => s.rung),
    ['copy', 'tiled'],
  );
  await assert.rejects(
    runTransposeBench({ only: ['tile'] }),
    /no rung is called 'tile'\. Expected one of: naive · tiled · padded/,
  );
  useDevice('cpu');
  assert.match(ladderChart(results), /the ladder at 64².*x\.transpose\(\).*>a copy</s);
  const rungs = results.steps.map((s) => s.rung);
  assert.deepEqual(
    [...rungs.slice(0, 4), ...rungs.slice(-2)],
    ['copy', 'naive', 'tiled', 'padded', 'x.transpose()', 'torch eager'],
  );
  assert.equal(results.steps[0]!.ofCopy, 1);
  assert.ok(results.steps.every((s) => s.median > 0 && s.ofCopy > 0 && s.gigabytes > 0));
  assert.match(transposeReport(results), /^torch eager +64² +5\.00 +6\.6 G +[\d.]+ %$/m);
  await assert.rejects(runTransposeBench(), /the ladder is for GPUs, cpu is none/);
});

test('train: wall-clock, device and host time of a step', async () => {
  const results = await runTrainBench({ only: ['mlp-64'] });
  const [mlp] = results.measurements;
  assert.equal(results.measurements.length, 1);
  assert.ok(mlp!.launches > 0 && mlp!.calls.median > 0 && mlp!.device.median > 0 && mlp!.host.median > 0);
  assert.match(trainReport(results), /^workload +µs +min +device +calls +host +launches$/m);
});

test('the benchmarks have a section of the GPU once there are figures of one', async () => {
  const script = join(repository(), 'scripts/bench-table.mjs');
  const page = join(folder, 'docs/performance/index.md');
  const readme = join(folder, 'README.md');
  await mkdir(join(folder, 'docs/performance'), { recursive: true });
  const write = (): void =>
    void execFileSync(process.execPath, [script, '--root', folder], { stdio: 'pipe' });
  const results = (name: string, of: object): Promise<void> =>
    writeResults(join(folder, `bench/results/${name}-2026-01-01.json`), { ...run, ...of });
  const run = {
    ...circumstances('npx heddle bench'),
    device: { name: 'cpu', description: 'a processor' },
    ceilings: { copy: 4000, products: { f32: 51000 } },
  };
  const spread = spreadOf([2, 3, 4]);
  const peer = { peer: 'torch', version: '2', mode: 'graph', us: 6, ratio: 0.5 };
  await writeFile(page, 'a\n<!-- bench:gpu -->\nold\n<!-- /bench:gpu -->\nb\n');
  await writeFile(readme, '<!-- bench:summary -->\n<!-- /bench:summary -->\n');
  const softmax = {
    case: 'softmax-8192',
    title: 'softmax',
    ...spread,
    gigabytes: 178.5,
    ofCeiling: 0.5,
    peer,
  };
  await results('kernels', { measurements: [softmax] });
  write();
  assert.equal(await readFile(page, 'utf8'), 'a\n<!-- bench:gpu -->\n<!-- /bench:gpu -->\nb\n');

  const device = { name: 'cuda', description: 'a GPU', driver: '580.1' };
  await results('kernels', { device, measurements: [softmax] });
  const step = { case: 'mlp-64', title: 'mlp, batch 64', ...spread, calls: spread, launches: 7, peer };
  await results('train', { device, measurements: [step] });
  const rung = { rung: 'naive', size: 4096, median: 2, gflops: 68720, ofPeer: 0.5 };
  await results('matmul', { device, steps: [{ ...rung, size: 1024 }, rung] });
  const turn = { rung: 'padded', size: 8192, median: 130, gigabytes: 4130, ofCopy: 0.98 };
  await results('transpose', { device, steps: [turn] });
  const trained = {
    title: 'net',
    cache: 'warm',
    accuracy: [0.99, 0.98],
    epoch: spread,
    training: spread,
    process: spread,
  };
  await results('mnist', { device, runs: [trained] });
  write();
  assert.match(
    await readFile(readme, 'utf8'),
    /^\| a GPU \| a training step of mlp, batch 64 \| 3\.00 µs \| 6\.00 µs \(torch graph\) \| 2\.00× \|$/m,
  );
  const text = await readFile(page, 'utf8');
  assert.match(text, /^a\n<!-- bench:gpu -->\n## On a GPU\n\nSpeed-up = .*\n\n\| a training step \| Heddle /);
  assert.match(
    text,
    /^\| mlp, batch 64 \| 3\.00 µs \| 3\.00 µs \| 7 \| 6\.00 µs \(torch graph\) \| 2\.00× \|$/m,
  );
  assert.match(text, /^\| softmax \| 3\.00 µs \| 179 GB\/s \| 50\.0 % \| 6\.00 µs/m);
  assert.match(text, /^\| net, warm cache \| 98\.00 % to 99\.00 % \| 3\.000 s \| 3\.00 s \| 3\.00 s \|$/m);
  assert.match(text, /^\| naive \| 2\.00 µs \| 68\.7 TFLOP\/s \| 50\.0 % \|$/m);
  assert.match(text, /^\| padded \| 130 µs \| 4130 GB\/s \| 98\.0 % \|$/m);
  assert.doesNotMatch(text, /1024³/);
  assert.match(text, /a GPU, driver 580\.1, Node v/);
});

function repository(): string {
  let at = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(at, 'scripts/bench-table.mjs'))) at = dirname(at);
  return at;
}

test('mnist: processes with a cold and a warm cache', async () => {
  const options = { only: ['lenet5'], device: 'cpu', epochs: 1, limit: 64, warmRuns: 1 };
  const results = await runMnistBench(options);
  assert.deepEqual(
    results.runs.map(({ cache, accuracy }) => [cache, accuracy.length]),
    [
      ['cold', 1],
      ['warm', 1],
    ],
  );
  for (const { training, process, epochs } of results.runs) {
    assert.ok(training.median > 0 && training.median < process.median);
    assert.equal(epochs.at(-1)!.elapsed, training.median);
  }
  assert.equal(results.device.name, 'cpu');
  assert.equal(
    results.runs[0]!.title,
    'lenet5, adam, 1 epoch in batches of 64, a test after each, 64 examples',
  );
  assert.equal(results.command, 'npx heddle bench mnist --only lenet5 --device cpu --epochs 1 --limit 64');
  assert.match(mnistReport(results), /^run +cache +test accuracy +an epoch +training +process$/m);
  await assert.rejects(runMnistBench({ ...options, device: 'abacus' }), /'abacus' is not a device/);
});

test('start: the first step of processes with an empty and a filled cache, and where its time goes', async () => {
  const results = await runStartBench({ only: ['mlp-64'], device: 'cpu', warmRuns: 1 });
  const [cold, warm] = results.starts;
  assert.deepEqual([cold?.cache, warm?.cache, results.starts.length], ['cold', 'warm', 2]);
  for (const { total, imports, build, first, phases, launches } of results.starts) {
    assert.ok(launches > 0 && Math.abs(total.median - imports - build - first) < 1);
    const all = Object.values(phases).reduce((sum, ms) => sum + ms, 0);
    assert.ok(all > 0 && all < build + first + 1);
  }
  assert.ok(cold!.phases.plan! > 0 && warm!.phases.plan === undefined);
  assert.match(
    startReport(results),
    /^first step of +cache +total +imports +build +step +next step +of these$/m,
  );
});

test('profile: shares add up, products count their operations, hand-written kernels say where they stand', async () => {
  const profile = await profileStep('mlp', { batchSize: 8 });
  const { launches } = profile;
  assert.ok(Math.abs(launches.reduce((sum, l) => sum + l.share, 0) - 1) < 1e-6);
  const products = launches.filter((l) => l.name.startsWith('matmul'));
  // Forward, and the gradients of both layers' weights and of the hidden units
  const expected = 2 * 8 * (2 * 784 * 128 + 3 * 128 * 10);
  assert.equal(
    products.reduce((sum, l) => sum + l.flops!, 0),
    expected,
  );
  for (const l of launches)
    assert.ok(l.us > 0 && l.bytes > 0 && l.ofRoofline >= 0 && l.ofRoofline < 1.01, l.name);
  for (const l of products) assert.match(l.kernel!, /ops[\\/]matmul[\\/]cpu[\w-]*\.[jt]s:\d+$/);
  for (const l of launches) assert.match(l.origins.join(), /^(∂ )?\w+\/[\w/-]+\.ts:\d+/, l.name);
  const layer = /^nn\/linear\.ts:\d+$/;
  assert.ok(launches.some((l) => l.origins.some((o) => layer.test(o))));
  assert.ok(launches.some((l) => l.origins.some((o) => o.startsWith('∂ ') && layer.test(o.slice(2)))));
  assert.ok(launches.some((l) => l.origins.some((o) => /^optim\//.test(o))));
  const roofline = rooflineChart(profile);
  const computing = launches.filter((l) => (l.flops ?? 0) > 0);
  assert.equal(roofline.match(/<path [^>]*fill-opacity="0\.55"/g)!.length, computing.length);
  for (const precision of Object.keys(profile.ceilings.products))
    assert(roofline.includes(`>products in ${precision}<`));
  assert.doesNotMatch(roofline, /NaN|Infinity|undefined/);
  const report = profileReport(profile);
  assert.match(report, /^mlp, a training step of 8 on cpu: /);
  const narrow = profileReport(profile, 80).split('\n');
  const tooWide = narrow.filter((line) => line.length > 80 && line.trim().includes(' '));
  assert.deepEqual(tooWide, []);
  assert.equal(narrow.filter((line) => line.startsWith('    ')).length >= launches.length, true);
  assert.match(report, /^matmul\w+ +\d+ +\d+ +[\d.]+ +[\d.]+ % +[\d.]+ [kM] /m);
  assert.match(report, /^sum +[\d.]+ +[\d.]+ [kM] +[\d.]+ [kM]$/m);
});

test('a profile leaves state as so many calls would, and counts the launches', async () => {
  const x = tensor([1, 2, 3]);
  const count = tensor(0);
  const step = jit((v: typeof x) => {
    count.assign(count.add(1));
    return v.mul(2).sum();
  });
  const { us, launches } = await step.profile([x], { rounds: 2, roundUs: 10 });
  assert.equal(us.length, 2);
  assert.equal(launches.length, step.launches);
  assert.ok((await count.item()) > 2);
  assert.equal(await step(x).item(), 12);
  const whole = await step.profile([x], { rounds: 1, roundUs: 10, each: false });
  assert.deepEqual([whole.us.length, whole.launches.length], [1, 0]);
});

test('what cannot be measured is refused by name', async () => {
  await assert.rejects(
    runKernelsBench({ only: ['warp'] }),
    /no case is called 'warp'\. Expected one of: matmul-f32-512/,
  );
  await assert.rejects(profileStep('gtp'), ArgumentError);
  useDevice('sim');
  await assert.rejects(runTrainBench(), /the simulator finds faults and says nothing of speed/);
  useDevice('cpu');
});
