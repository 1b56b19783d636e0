/** What takes a process of its own: other numbers of threads, little memory, other devices from the start. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

const library = new URL('../../src/index.js', import.meta.url).href;

/** Runs `body` with everything of the library as `h`; returns what it printed. */
async function run(body: string, env: Record<string, string>): Promise<string> {
  const script = `import * as h from ${JSON.stringify(library)};\n${body}`;
  // Far more than any of them takes: what hangs is ended, and fails.
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    timeout: 120_000,
    env: { ...process.env, ...env },
  });
  return stdout.trim();
}

/** A small convolutional network, trained with dropout; prints a digest of all bits of losses and weights. */
const TRAINING = `
  import { createHash } from 'node:crypto';
  h.manualSeed(1);
  class Net extends h.nn.Module {
    conv = new h.nn.Conv2d(1, 4, 3, { padding: 1 });
    norm = new h.nn.BatchNorm2d(4);
    first = new h.nn.Linear(4 * 6 * 6, 64);
    second = new h.nn.Linear(64, 3);
    forward(x) {
      const y = h.maxPool2d(h.relu(this.norm.forward(this.conv.forward(x))), 2);
      return this.second.forward(h.dropout(h.relu(this.first.forward(y.flatten(1))), { p: 0.3 }));
    }
  }
  const model = new Net();
  const optimizer = new h.optim.Adam(model.parameters(), { lr: 1e-2 });
  const step = h.jit((x, y) => {
    const loss = h.crossEntropy(model.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const digest = createHash('sha256');
  const bits = async (t) => digest.update(new Uint8Array((await t.data()).buffer.slice(0)));
  for (let i = 0; i < 6; i++) {
    const x = h.randn([32, 1, 12, 12]);
    await bits(step(x, x.flatten(1).argmax(1).mod(3)));
  }
  for (const p of model.parameters()) await bits(p);
  // Large enough for several blocks of every kind of kernel
  const a = h.randn([200, 300]);
  await bits(a.matmul(a.transpose()).softmax(1).sum(0));
  await bits(a.square().mean());
  h.manualSeed(2);
  const other = h.randn([8]);
  h.manualSeed(1);
  console.log(digest.digest('hex'), await other.sub(h.randn([8])).abs().sum().item() > 0);
  process.exit(0);
`;

test('one seed gives the same bits, run after run, on one thread as on two', async () => {
  const digests = await Promise.all(
    ['1', '2', '2'].map((threads) => run(TRAINING, { HEDDLE_THREADS: threads, HEDDLE_DEVICE: 'cpu' })),
  );
  assert.match(digests[0]!, /^[0-9a-f]{64} true$/);
  assert.equal(digests[1], digests[2], 'two runs on two threads');
  assert.equal(digests[0], digests[1], 'one thread and two');
});

test('memory that runs out is an error that says what was asked, what is held and what to do', async () => {
  const printed = await run(
    `
      const kept = h.zeros([2 ** 20]).realize();
      const tensors = () => h.memory().holders.find((one) => one.label === 'tensors').bytes;
      const before = tensors();
      try {
        h.ones([4 * 2 ** 20]).realize();
      } catch (error) {
        console.log(JSON.stringify({ name: error.name, code: error.code, message: error.message }));
      }
      // What failed holds nothing, and there is still room for less
      console.log(tensors() - before, await h.ones([2 ** 18]).add(kept.at('0:1')).sum().item());
      process.exit(0);
    `,
    { HEDDLE_MEMORY_MB: '16', HEDDLE_DEVICE: 'cpu' },
  );
  const [first, second] = printed.split('\n');
  const error = JSON.parse(first!) as { name: string; code: string; message: string };
  assert.equal(error.name, 'OutOfMemoryError');
  assert.equal(error.code, 'HEDDLE_OUT_OF_MEMORY');
  assert.match(
    error.message,
    /^\[tensors\] asked for 16 MiB: of 16 MiB on the CPU device, 4\.0 MiB are held in \d+ buffers and .* are free, not in one piece; .*tensors.*\. Use a smaller batch, or dispose of .* await a value now and then\. Or raise HEDDLE_MEMORY_MB \(at most 4096\)\.$/,
  );
  assert.equal(second, `0 ${2 ** 18}`);
});

test('a training step that runs out of memory changes nothing, and training goes on', async () => {
  const printed = await run(
    `
      const train = async (jitted, large) => {
        h.manualSeed(1);
        const model = new h.nn.Sequential(new h.nn.Linear(256, 256), new h.nn.ReLU(), new h.nn.Linear(256, 1));
        const optimizer = new h.optim.Adam(model.parameters(), { lr: 1e-3 });
        const plain = (x) => {
          const loss = model.forward(x).square().mean();
          loss.backward();
          optimizer.step();
          return loss;
        };
        const step = jitted ? h.jit(plain) : plain;
        const small = h.ones([4, 256]);
        const losses = [await step(small).item()];
        const errors = [];
        for (let i = 0; i < large; i++) {
          const x = h.ones([4000, 256]).realize();
          const { used } = h.memory();
          try { step(x); } catch (e) { errors.push(e.code, h.memory().used - used < 2 ** 17); }
          x.dispose();
        }
        losses.push(await step(small).item(), await step(small).item());
        return { losses: losses.join(), errors: errors.join() };
      };
      for (const jitted of [false, true]) {
        const expected = await train(jitted, 0);
        const { losses, errors } = await train(jitted, 2);
        console.log(errors, losses === expected.losses);
      }
      process.exit(0);
    `,
    { HEDDLE_MEMORY_MB: '16', HEDDLE_DEVICE: 'cpu' },
  );
  const line = 'HEDDLE_OUT_OF_MEMORY,true,HEDDLE_OUT_OF_MEMORY,true true';
  assert.equal(printed, `${line}\n${line}`);
});

test('a loop over a loader needs no more memory for never awaiting a value', async () => {
  const printed = await run(
    `
      const [length, features] = [2000, 4096];
      const data = { inputs: new Uint8Array(length * features), labels: new Uint8Array(length) };
      const dataset = new h.data.ArrayDataset({ ...data, inputShape: [features], classes: 2 });
      const sum = h.jit((x) => x.sum());
      let last;
      for await (const { inputs, size } of new h.data.Loader(dataset, { batchSize: 50 }))
        last = sum(h.tensor(inputs, { shape: [size, features] }).add(1));
      console.log(await last.item());
      process.exit(0);
    `,
    { HEDDLE_MEMORY_MB: '16', HEDDLE_DEVICE: 'cpu' },
  );
  assert.equal(printed, String(50 * 4096));
});

test('an environment that is malformed is an error when it is read', async () => {
  const message = (env: Record<string, string>): Promise<string> =>
    run(
      `try { await h.ones([2]).add(1).data(); } catch (e) { console.log(e.name + ': ' + e.message); } process.exit(0);`,
      env,
    );
  assert.equal(
    await message({ HEDDLE_DEVICE: 'tpu' }),
    "DeviceError: HEDDLE_DEVICE=tpu: 'tpu' is not a device. Expected one of: cuda, cpu, sim (cuda:1 is the second " +
      'GPU). Without a name the fastest is used.',
  );
  assert.equal(
    await message({ HEDDLE_THREADS: 'many', HEDDLE_DEVICE: 'cpu' }),
    'ArgumentError: HEDDLE_THREADS=many: must be a whole number from 1 to 256.',
  );
  // What this device does not read is malformed, too.
  assert.equal(
    await message({ HEDDLE_VENDOR: 'foo', HEDDLE_CUDA_SYNC: 'yes', HEDDLE_DEVICE: 'cpu' }),
    'ArgumentError: HEDDLE_CUDA_SYNC=yes: must be a whole number from 0 to 1.\n' +
      'HEDDLE_VENDOR=foo: must be on or off.',
  );
  // Node's own recursive mkdir never returns there.
  assert.match(
    await message({ HEDDLE_CACHE: '/proc/nowhere', HEDDLE_DEVICE: 'cpu' }),
    /^FileError: \/proc\/nowhere: cannot make this folder \(ENOENT.*\)\. Set HEDDLE_CACHE to another one/,
  );
});

test('a process ends by itself when nothing is left to do', async () => {
  assert.equal(
    await run(`console.log(await h.ones([300000]).sum().item());`, { HEDDLE_DEVICE: 'cpu' }),
    '300000',
  );
});
