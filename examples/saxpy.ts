// A GPU kernel in TypeScript: y ← a·x + y.
import { arange, buffer, ceilDiv, device, f32, i32, kernel, ones } from 'heddle';

const saxpy = kernel(
  'saxpy',
  { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
  ({ a, x, y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[i] = a * x[i] + y[i];
  },
);

const n = 1000;
const x = arange(n, { dtype: f32 });
const y = ones([n]);
await saxpy.launch({ grid: ceilDiv(n, 256), block: 256 }, { a: 2, x, y, n });

console.log(`on ${device().name}: y[0…4] =`, await y.at(':5').array());
console.log('\nwhat a GPU compiles:\n');
console.log(saxpy.source('cuda'));
