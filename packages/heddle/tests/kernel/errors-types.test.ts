import { fails } from './refusal.js';

// Types

fails(
  'mixing',
  ({ x, n }) => {
    x[0] = x[1] * n;
  },
  /`x\[1\] \* n`: f32 and i32 do not mix; nothing converts silently\. Convert one side: f32\(n\)\./,
  'x[1] * n',
);
fails(
  'mixing floats',
  ({ x, a, d }) => {
    x[0] = a + d;
  },
  /f32 and f64 do not mix/,
  'a + d',
);
fails(
  'mixing numbers and bools',
  ({ x, a, yes }) => {
    x[0] = a + Number(yes);
  },
  /Number\(x\) names no dtype: write f32\(x\), i32\(x\)/,
  'Number',
);
fails(
  'storing another type',
  ({ x, n }) => {
    x[n] = n;
  },
  /x\[…\] is f32, the value is i32\. Convert it: f32\(n\)\./,
  'n;',
);
fails(
  'storing a bool',
  ({ x, n }) => {
    x[n] = n > 1;
  },
  /x\[…\] is f32, the value is bool/,
  'n > 1',
);
fails(
  'setting another type',
  ({ x, n }) => {
    let v = x[0];
    v = n;
    x[0] = v;
  },
  /`v` is f32, the value is i32\. Convert it: f32\(n\)\./,
  'n;',
);
fails(
  'a second type for a literal let',
  ({ x, n }) => {
    let v = 0;
    v = x[0];
    v += n;
    x[0] = v;
  },
  /f32 and i32 do not mix/,
  'v += n',
);
fails(
  'division of integers',
  ({ y, n }) => {
    y[0] = n / 2;
  },
  /`n \/ 2` needs floats, got i32\. Write idiv\(a, b\) for the whole quotient/,
  'n / 2',
);
fails(
  'a fraction next to an integer',
  ({ y, n }) => {
    y[0] = n + 0.5;
  },
  /0\.5 is not an i32: whole numbers only/,
  '0.5',
);
fails(
  'a number out of range',
  ({ y, n }) => {
    y[0] = n + 3000000000;
  },
  /3000000000 is outside i32/,
  '3000000000',
);
fails(
  'Math on integers',
  ({ y, n }) => {
    y[0] = Math.sqrt(n);
  },
  /`Math\.sqrt\(n\)` needs floats, got i32\. Convert first: f32\(x\)/,
  'Math.sqrt',
);
fails(
  'bits of floats',
  ({ x, a }) => {
    x[0] = a | 0;
  },
  /`a \| 0` needs integers or bools, got f32\. Convert first: i32\(x\)/,
  'a | 0',
);
fails(
  'arithmetic on bools',
  ({ y, flags }) => {
    y[0] = flags[0] + flags[1];
  },
  /needs numbers, got bool\. Use select\(b, 1, 0\)/,
  'flags[0] + flags[1]',
);
fails(
  '>>> of i32',
  ({ y, n }) => {
    y[0] = n >>> 1;
  },
  /`>>>` needs an unsigned integer/,
  'n >>> 1',
);
fails(
  'a number as a condition',
  ({ x, n }) => {
    if (n) x[0] = 1;
  },
  /a condition must be a bool, got i32\. Compare it: x !== 0/,
  'n) x',
);
fails(
  'a number in &&',
  ({ x, n, yes }) => {
    if (yes && n) x[0] = 1;
  },
  /a condition must be a bool, got i32/,
  'n) x',
);
fails(
  'sides of a choice',
  ({ x, n, a, yes }) => {
    x[0] = yes ? a : n;
  },
  /the two sides of a choice: f32 and i32 do not mix/,
  'yes ?',
);
fails(
  'a float index',
  ({ x, a }) => {
    x[a] = 1;
  },
  /an index must be i32, got f32\. Convert it: i32\(x\)/,
  'a] = 1',
);
fails(
  'an i64 index',
  ({ x, l }) => {
    x[l] = 1;
  },
  /an index must be i32, got i64/,
  'l] = 1',
);
fails(
  'casting to bool what is compared',
  ({ flags, n }) => {
    flags[0] = n;
  },
  /flags\[…\] is bool, the value is i32\. Compare it: x !== 0/,
  'n;',
);

fails(
  'a literal let next to a float',
  ({ x, a }) => {
    for (let t = 0; t < a; t += 0.5) x[0] = t;
  },
  /i32 and f32 do not mix; nothing converts silently\. Declare it with its dtype: let t = f32\(…\)\./,
  't < a',
);

// Shapes

fails(
  'too few indices',
  ({ x }, { shared, f32 }) => {
    const t = shared(f32, 4, 4);
    x[0] = t[1];
  },
  /t takes 2 indices, got 1: t\[i\]\[i\]/,
  't[1]',
);
fails(
  'too many indices',
  ({ x }) => {
    x[0] = x[1][2];
  },
  /x takes 1 index, got 2: x\[i\]/,
  'x[1][2]',
);
fails(
  'a whole buffer as a value',
  ({ x, a }) => {
    x[0] = a + (x as unknown as number);
  },
  /a value is needed here, got x \(global f32\[\]\)\. Index it: x\[i\]/,
  'x',
);
fails(
  'a size that is not known',
  ({ n }, { shared, f32 }) => {
    shared(f32, n);
  },
  /the size of an array must be known when the kernel is compiled, got i32/,
  'n);',
);
fails(
  'a size of nothing',
  (_p, { local, f32 }) => {
    local(f32, 0);
  },
  /the size of an array must be a whole number above 0, got 0/,
  '0);',
);
fails(
  'a size that is missing',
  (_p, { local, f32 }) => {
    (local as unknown as (t: unknown) => void)(f32);
  },
  /local takes sizes after the dtype/,
  'local as',
);
fails(
  'a dtype that is missing',
  (_p, { local }) => {
    local(4 as never, 4);
  },
  /local takes a dtype first, got the constant 4/,
  '4',
);
fails(
  'a lane that is not there',
  ({ x }, { lane, load4 }) => {
    x[0] = lane(load4(x, 0), 4);
  },
  /lane 4 is out of range: the vector has 4 lanes/,
  '4);',
);
fails(
  'a lane of a scalar',
  ({ x, a }, { lane }) => {
    x[0] = lane(a, 0);
  },
  /lane takes a vector first, got f32/,
  'a, 0',
);
fails(
  'a vector into an element',
  ({ x }, { splat4, a }) => {
    x[0] = splat4(1);
    void a;
  },
  /x\[…\] has 1 lane, the value 4\. Take one: lane\(v, 0\)/,
  'splat4',
);
fails(
  'vectors of different widths',
  ({ x }, { load2, load4, store4 }) => {
    store4(x, 0, load4(x, 0) + load2(x, 0));
  },
  /vectors of 4 and of 2 lanes do not mix/,
  'load4(x, 0) + load2',
);
fails(
  'a vector as a condition',
  ({ x }, { load4 }) => {
    if (load4(x, 0) > 1) x[0] = 1;
  },
  /a condition must be a scalar/,
  'load4',
);
fails(
  'bitcast between sizes',
  ({ x, d }, { bitcast, f32 }) => {
    x[0] = bitcast(f32, d);
  },
  /bitcast needs equal sizes: f64 has 8 bytes, f32 4/,
  'bitcast',
);
