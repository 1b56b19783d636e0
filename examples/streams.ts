// Kernels side by side: two simulations on streams of their own, in memory without a tensor around it, and a third kernel
// that waits for both. On a GPU the two overlap; elsewhere they run one after the other, with the same result.
import { allocate, buffer, device, f32, i32, kernel, stream, zeros } from 'heddle';

/** The logistic map v ← r·v·(1 − v), `rounds` times. */
const iterate = kernel(
  'iterate',
  { v: buffer(f32), r: f32, rounds: i32 },
  ({ v, r, rounds }, { globalId }) => {
    let x = v[globalId.x];
    for (let i = 0; i < rounds; i++) x = r * x * (1 - x);
    v[globalId.x] = x;
  },
);

const difference = kernel(
  'difference',
  { x: buffer(f32), y: buffer(f32), out: buffer(f32) },
  ({ x, y, out }, { globalId }) => {
    out[globalId.x] = x[globalId.x] - y[globalId.x];
  },
);

const n = 256;
const [first, second] = [stream(), stream()];
const start = Float32Array.from({ length: n }, (_, i) => (i + 1) / (n + 1));
const x = allocate(f32, start);
const y = allocate(f32, start);
const out = zeros([n]);

await iterate.launch({ grid: 2, block: 128, stream: first }, { v: x, r: 2, rounds: 20_000 });
await iterate.launch({ grid: 2, block: 128, stream: second }, { v: y, r: 2.5, rounds: 20_000 });
first.wait(second.record());
await difference.launch({ grid: 2, block: 128, stream: first }, { x, y, out });

// Tensors and reads need no event: they come after what was launched on their memory.
const distance = out.add(0.1).abs().max();
console.log(`on ${device().name}, x, y:`, (await x.read())[0], (await y.read())[0]);
console.log('largest distance from −0.1:', await distance.item());
