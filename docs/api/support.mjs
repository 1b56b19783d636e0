/**
 * The support matrix, docs/reference/support.md: which op takes which dtype on which device, and has a gradient. It is made
 * from the list of cases that the tests run (packages/heddle/tests/cases), as built.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { everyExport, root } from './exports.mjs';
import { pageOf } from './pages.mjs';

const cases = join(root, 'packages/heddle/dist/tests/cases');
const DTYPES = ['f32', 'f64', 'f16', 'bf16', 'i32', 'u32', 'i64', 'i8', 'u8', 'bool'];
const DEVICES = ['cpu', 'cuda', 'sim'];

/** The lists of the cases, by the file that they are in, in the order of the page. */
const LISTS = {
  elementwise: 'Elementwise',
  reduce: 'Reductions',
  movement: 'Shapes and movement',
  pieces: 'Pieces',
  indexing: 'Indexing',
  sorting: 'Sorting',
  scattering: 'Scattering',
  matmul: 'Products',
  einsum: 'Products',
  images: 'Convolution and pooling',
  windows: 'Convolution and pooling',
  resizing: 'Images',
  sequences: 'Sequences',
  layers: 'Activations, normalization and losses',
  losses: 'Activations, normalization and losses',
  quantization: 'Quantization',
};

/** Rows of layers, under the names that users know. */
const LAYERS = [
  [/^recurrent layer of (?:tanh|relu)/, 'nn.RNN'],
  [/^recurrent layer of gru/, 'nn.GRU'],
  [/^recurrent layer of lstm/, 'nn.LSTM'],
  [/^(?:attention|causal attention)/, 'scaledDotProductAttention'],
];

/** Calls for ops whose cases have numbers that not every dtype has. */
const CALLS = {
  clamp: (x) => x.clamp({ min: 0, max: 1 }),
  floorDivide: (x) => x.floorDivide(2),
  maskedFill: (x) => x.maskedFill(x.ne(x), 1),
  split: (x) => x.flatten().split(1)[0],
  chunk: (x) => x.flatten().chunk(1)[0],
};

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {Set<string>} tested dtypes of a case with a reference
 * @property {Set<string>} taken dtypes that it takes besides
 * @property {boolean} gradient checked against differences
 * @property {Set<string>} devices
 */

/** @param {Record<string, unknown>} heddle as built */
function namer(heddle) {
  const { Tensor } = /** @type {{ Tensor: { prototype: object } }} */ (heddle);
  return (/** @type {string} */ op) => {
    for (const [pattern, name] of LAYERS) if (/** @type {RegExp} */ (pattern).test(op)) return String(name);
    const word = op.split(/[ ,]/)[0] ?? '';
    const isLayer = /^[A-Z]/.test(word) && word in /** @type {object} */ (heddle.nn);
    if (isLayer) return `nn.${word}`;
    return word in heddle || word in Tensor.prototype ? word : undefined;
  };
}

/** The dtype that a case is about: that of its first floats, else of its first input. */
function mainDtype({ inputs }, f32) {
  const dtypes = inputs.map((input) => input.dtype ?? f32);
  return dtypes.find(({ kind }) => kind === 'float') ?? dtypes[0];
}

/** Whether a case's op takes another dtype instead of its own: an op refuses it when its node is made. */
function takes(one, dtype, heddle) {
  const main = mainDtype(one, heddle.f32);
  const inputs = one.inputs.map((input) => {
    const own = input.dtype ?? heddle.f32;
    return heddle.zeros(input.shape, { dtype: own === main ? dtype : own });
  });
  try {
    (CALLS[one.op] ?? one.run)(...inputs);
    return true;
  } catch (error) {
    if (error instanceof heddle.HeddleError) return false;
    throw error;
  }
}

/** Whether the result has a gradient: floats in, floats out, and a check that is not left out. */
function hasGradient(one, heddle) {
  const main = mainDtype(one, heddle.f32);
  if (main?.kind !== 'float' || (one.gradient && 'skip' in one.gradient)) return false;
  const inputs = one.inputs.map((input) => heddle.zeros(input.shape, { dtype: input.dtype ?? heddle.f32 }));
  return one.run(...inputs).dtype.kind === 'float';
}

/** @returns {Promise<Map<string, Map<string, Row>>>} rows by group and name */
async function matrix() {
  const heddle = await import(join(root, 'packages/heddle/dist/src/index.js'));
  const nameOf = namer(heddle);
  /** @type {Map<string, Map<string, Row>>} */
  const groups = new Map();
  const known = new Map();
  for (const [file, group] of Object.entries(LISTS)) {
    const rows = groups.get(group) ?? new Map();
    groups.set(group, rows);
    const lists = Object.values(await import(join(cases, `${file}.js`))).filter(Array.isArray);
    for (const one of lists.flat()) {
      const name = nameOf(one.op);
      if (!name) continue;
      const row = known.get(name) ?? {
        name,
        tested: new Set(),
        taken: new Set(),
        gradient: false,
        devices: new Set(),
      };
      if (!known.has(name)) rows.set(name, row);
      known.set(name, row);
      for (const dtype of DTYPES)
        if (!row.taken.has(dtype) && takes(one, heddle[dtype], heddle)) row.taken.add(dtype);
      row.tested.add(mainDtype(one, heddle.f32)?.name ?? 'f32');
      row.gradient ||= hasGradient(one, heddle);
      for (const device of DEVICES) if (!one.skip?.[device]) row.devices.add(device);
    }
  }
  return groups;
}

const HEAD = `---
pageClass: support
outline: 2
---

# Support matrix {#page}

Which op takes which dtype, where it runs, and whether it has a gradient. The table is made from the list of cases that the
tests run on every device against a plain reference; [Platforms](platforms.md) has systems, GPUs, browsers and bundlers.

- **●** a test compares this dtype with a reference.
- **○** the op takes this dtype, by the same generic code.
- An empty field: the op refuses this dtype, with an error that says so.
- **✓** under *gradient*: the gradient is checked against central differences in f64, and in f32 on every device.

<SupportFilter />
`;

/** Where the API describes an op. @returns {(name: string) => string} */
function linker() {
  const pages = new Map(everyExport().map((exported) => [exported.name, pageOf(exported).name]));
  return (name) => {
    const own = name.replace('nn.', '');
    const page = pages.get(own) ?? 'tensor';
    return `[\`${name}\`](api/${page}.md#${own.toLowerCase()})`;
  };
}

/** @param {Row} row @param {(name: string) => string} linked */
function lineOf({ name, tested, taken, gradient, devices }, linked) {
  const marks = DTYPES.map((dtype) => (tested.has(dtype) ? '●' : taken.has(dtype) ? '○' : ''));
  const where = DEVICES.map((device) => (devices.has(device) ? '✓' : ''));
  return `| ${linked(name)} | ${[...marks, gradient ? '✓' : '', ...where].join(' | ')} |`;
}

export async function makeSupport() {
  const linked = linker();
  const head = ['op', ...DTYPES, 'gradient', ...DEVICES];
  const sections = [...(await matrix())].map(([group, rows]) =>
    [
      `## ${group}`,
      '',
      `| ${head.join(' | ')} |`,
      `|---|${':-:|'.repeat(head.length - 1)}`,
      ...[...rows.values()].map((row) => lineOf(row, linked)),
      '',
    ].join('\n'),
  );
  writeFileSync(join(root, 'docs/reference/support.md'), [HEAD, ...sections].join('\n'));
}
