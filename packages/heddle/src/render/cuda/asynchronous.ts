/** The copy engine, mbarriers and the products of warpgroups in C++: one instruction each, by inline PTX. */
import type { DType, DTypeName } from '../../core/dtype.js';
import { InternalError } from '../../core/errors.js';
import type { ASYNCHRONOUS } from '../../kernel/ir/asynchronous.js';
import { WGMMA_OPERANDS, WGMMA_ROWS, WGMMA_WORDS, wgmmaDepth } from '../../kernel/ir/asynchronous.js';
import type { ArrayDecl, Expr, MemoryNode } from '../../kernel/ir/ir.js';
import { isHeld, mapOf } from '../../kernel/ir/operands.js';
import type { Prelude } from './prelude.js';
import { call, postfix, REGISTER_TYPE, type Text } from './text.js';

export type Asynchronous = keyof typeof ASYNCHRONOUS;

/** A place, as text. */
export interface PlaceText {
  readonly memory: MemoryNode;
  readonly indices: readonly Text[];
  readonly name: string;
  /** The memory's name, or of a local array the element's. */
  readonly text: string;
}

/** One use: its places, and its arguments after them. */
interface Use {
  readonly prelude: Prelude;
  readonly places: readonly PlaceText[];
  readonly args: readonly Text[];
  readonly values: readonly Expr[];
}

const ADDRESS = '(unsigned)__cvta_generic_to_shared';

/** A function of the prelude that is one piece of inline PTX. */
function instruction(
  prelude: Prelude,
  name: string,
  parameters: string,
  asm: string,
  args: readonly Text[],
): Text {
  prelude.define(
    name,
    () => `__device__ __forceinline__ void ${name}(${parameters}) { asm volatile(${asm}); }`,
  );
  return call(name, ...args);
}

/** On the mbarrier at a place. */
const onBarrier =
  (name: string, ptx: string, parameters: readonly string[] = [], operands = parameters.join()) =>
  ({ prelude, places: [at], args }: Use): Text =>
    instruction(
      prelude,
      name,
      ['unsigned long long* barrier', ...parameters.map((p) => `unsigned ${p}`)].join(', '),
      `"${ptx}" :: "r"(${ADDRESS}(barrier))${operands && `, "r"(${operands})`} : "memory"`,
      [postfix(`${at!.text} + ${at!.indices[0]!.text}`), ...args],
    );

/** On the mbarrier of another block of the cluster at a place. */
const onRemoteBarrier = ({ prelude, places: [at], args }: Use): Text =>
  instruction(
    prelude,
    'arrive_remote',
    'unsigned long long* barrier, unsigned rank',
    '"{\\n.reg .b32 remote;\\nmapa.shared::cluster.u32 remote, %0, %1;\\n' +
      'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\\n}" ' +
      `:: "r"(${ADDRESS}(barrier)), "r"(rank) : "memory"`,
    [postfix(`${at!.text} + ${at!.indices[0]!.text}`), ...args],
  );

/** Letters of PTX for the registers of values. */
const LETTERS = {
  ...{ f32: 'f', f64: 'd' },
  ...{ i32: 'r', u32: 'r', i64: 'l' },
} as const satisfies Partial<Record<DTypeName, string>>;

const isLettered = (name: DTypeName): name is keyof typeof LETTERS => name in LETTERS;

/** Of a value, to shared memory of another block of the cluster. */
function storeRemote({ prelude, places: [at, barrier], args: [value, rank] }: Use): Text {
  const { dtype } = at!.memory.type;
  if (!isLettered(dtype.name)) throw new InternalError(`storeRemote of ${dtype.name}`);
  const T = REGISTER_TYPE[dtype.name];
  return instruction(
    prelude,
    `store_remote_${dtype.name}`,
    `${T}* at, unsigned long long* barrier, ${T} value, unsigned rank`,
    '"{\\n.reg .b32 there, full;\\nmapa.shared::cluster.u32 there, %0, %3;\\nmapa.shared::cluster.u32 full, %1, %3;\\n' +
      `st.async.shared::cluster.mbarrier::complete_tx::bytes.b${8 * dtype.bytes} [there], %2, [full];\\n}" ` +
      `:: "r"(${ADDRESS}(at)), "r"(${ADDRESS}(barrier)), "${LETTERS[dtype.name]}"(value), "r"(rank) : "memory"`,
    [
      postfix(`&${at!.text}${at!.indices.map(({ text }) => `[${text}]`).join('')}`),
      postfix(`${barrier!.text} + ${barrier!.indices[0]!.text}`),
      value!,
      rank!,
    ],
  );
}

const plain =
  (name: string, ptx: string) =>
  ({ prelude, args: [n] }: Use): Text =>
    instruction(
      prelude,
      n ? `${name}_${n.text}` : name,
      '',
      `"${ptx.replace('N', n?.text ?? '')}" ::: "memory"`,
      [],
    );

/** The row of a place, counted through all tiles of the array. */
const rowOf = ({ memory, indices }: PlaceText): string =>
  indices
    .slice(0, -1)
    .reduce((sum, { text }, i) => (i === 0 ? text : `(${sum}) * ${memory.type.dims[i]} + ${text}`), '0');

/** Bytes from the start of a tile's array to a place in it. */
const bytesTo = (at: PlaceText): string => {
  const { dims, dtype } = at.memory.type;
  return `((${rowOf(at)}) * ${dims.at(-1)} + ${at.indices.at(-1)!.text}) * ${dtype.bytes}`;
};

/** The same in units of 16 bytes, of which a row has a whole number. */
const unitsTo = (at: PlaceText): string => {
  const { dims, dtype } = at.memory.type;
  return `(${rowOf(at)}) * ${(dims.at(-1)! * dtype.bytes) / 16} + ((${at.indices.at(-1)!.text}) * ${dtype.bytes} >> 4)`;
};

const tileAddress = (at: PlaceText): Text => postfix(`${at.text} + ${bytesTo(at)}`);

/** The coordinates of a box, and where pixels are read the offsets from them; innermost first. */
function coordinatesOf({ memory, indices }: PlaceText) {
  const { length } = memory.type.dims;
  return {
    isWalk: mapOf(memory)!.walk !== undefined,
    coordinates: indices.slice(0, length).toReversed(),
    offsets: indices.slice(length).toReversed(),
  };
}

const listed = (count: number, each: (i: number) => string, between = ', '): string =>
  Array.from({ length: count }, (_, i) => each(i)).join(between);

const numbered = (count: number, from: number): string => listed(count, (i) => `%${from + i}`);

/** What the instruction of a copy names, innermost first. */
interface CopyOperands {
  readonly rank: number;
  readonly isWalk: boolean;
  readonly coordinates: string;
  readonly offsets: string;
  readonly mask: string;
}

/** A copy of a box, in one direction or the other; its arguments are the blocks of the cluster that a load is for. */
const copyOf =
  (name: string, ptx: (operands: CopyOperands) => string, map: number, tile: number, barrier?: number) =>
  ({ prelude, places, args: [mask] }: Use): Text => {
    const { isWalk, coordinates, offsets } = coordinatesOf(places[map]!);
    const rank = coordinates.length;
    const names = [...coordinates.map((_, i) => `c${i}`), ...offsets.map((_, i) => `o${i}`)];
    const isLoad = barrier !== undefined;
    const first = isLoad ? 3 : 2;
    const operands: CopyOperands = {
      ...{ rank, isWalk, coordinates: numbered(rank, first) },
      offsets: numbered(offsets.length, first + rank),
      mask: mask ? `, %${first + names.length}` : '',
    };
    // Offsets are numbers of 16 bits.
    const operand = (c: string, i: number) => (i < rank ? `, "r"(${c})` : `, "h"((unsigned short)${c})`);
    return instruction(
      prelude,
      `${name}_${rank}d${isWalk ? '_pixels' : ''}`,
      `void* tile, const TensorMap& map, ${isLoad ? 'unsigned long long* barrier, ' : ''}${names.map((c) => `int ${c}`).join(', ')}${mask ? ', int mask' : ''}`,
      `"${ptx(operands)}" :: "r"(${ADDRESS}(tile)), "l"(&map)` +
        `${isLoad ? `, "r"(${ADDRESS}(barrier))` : ''}${names.map(operand).join('')}${mask ? ', "h"((unsigned short)mask)' : ''} : "memory"`,
      [
        tileAddress(places[tile]!),
        postfix(places[map]!.text),
        ...(isLoad ? [postfix(`${places[barrier]!.text} + ${places[barrier]!.indices[0]!.text}`)] : []),
        ...coordinates,
        ...offsets,
        ...(mask ? [mask] : []),
      ],
    );
  };

/** Rows of 32, 64 and 128 bytes, as descriptors of tiles number their patterns. */
const PATTERNS: Readonly<Record<number, bigint>> = { 128: 1n, 64: 2n, 32: 3n };

/**
 * What the tensor cores are told of a tile besides its place: how its rows lie, the bytes from 8 of them to the next 8, and,
 * transposed, from one panel to the next.
 */
function descriptorOf({ type }: MemoryNode, transposed: boolean): bigint {
  const row = type.dims.at(-1)! * type.dtype.bytes;
  const panel = transposed ? type.dims.at(-2)! * row : 16;
  return (PATTERNS[row]! << 62n) | (BigInt((8 * row) >> 4) << 32n) | (BigInt(panel >> 4) << 16n);
}

/** The place in units of 16 bytes is a sum of its own, so that descriptors of a tile differ by constants. */
function descriptor(prelude: Prelude, at: PlaceText, transposed: boolean): Text {
  prelude.define(
    'tile_descriptor',
    () =>
      `__device__ inline unsigned long long tile_descriptor(const void* tiles, unsigned place, unsigned long long layout) {
  return layout >> 32 << 32 | ((unsigned)layout | ${ADDRESS}(tiles) >> 4) + place;
}`,
  );
  return call(
    'tile_descriptor',
    postfix(at.text),
    postfix(unitsTo(at)),
    postfix(`0x${descriptorOf(at.memory, transposed).toString(16)}ull`),
  );
}

/** The operands' type, as PTX names it. */
const operandType = ({ name }: DType): string => (name === 'f32' ? 'tf32' : name === 'i8' ? 's8' : name);

/** A local array's elements: their type in C++, and the class of registers that they are in. */
const REGISTERS: Readonly<Partial<Record<DTypeName, readonly [type: string, register: string]>>> = {
  f32: ['float', 'f'],
  i32: ['int', 'r'],
  u32: ['unsigned', 'r'],
};

const countOf = ({ dims }: { readonly dims: readonly number[] }): number => dims.reduce((n, d) => n * d, 1);

/** Whether sums are registers of PTX, which C++ does not see until they are waited for. */
const areNamed = (prelude: Prelude, { memory }: PlaceText): boolean =>
  memory.op === 'array' && prelude.clearedSums.has(memory.arg);

/**
 * Declares registers for sums. As operands of each product they would make a tenth of the compiler's work: it would follow
 * all of them through the loop.
 */
export const sumRegisters = (name: string, array: ArrayDecl): string =>
  `asm volatile(".reg .${array.dtype.name === 'f32' ? 'f32' : 's32'} ${name}_<${countOf(array)}>;")`;

function clearSums({ prelude, places: [at] }: Use): Text {
  const { memory, name } = at!;
  const zeros = listed(countOf(memory.type), (i) => `mov.b32 ${name}_${i}, 0;`, ' ');
  return instruction(prelude, `clear_${name}`, '', `"${zeros}"`, []);
}

/** After the wait they are the thread's. */
function takeSums(prelude: Prelude, { memory, name, text }: PlaceText): Text {
  const count = countOf(memory.type);
  const [type, register] = REGISTERS[memory.type.dtype.name]!;
  const moves = listed(count, (i) => `mov.b32 %${i}, ${name}_${i};`, ' ');
  const taken = listed(count, (i) => `"=${register}"(d[${i}])`);
  return instruction(prelude, `take_${name}`, `${type} (&d)[${count}]`, `"${moves}" : ${taken}`, [
    flat(memory, text),
  ]);
}

/** A local array as one of one dimension. */
function flat({ type: { dims, dtype } }: MemoryNode, text: string): Text {
  const [type] = REGISTERS[dtype.name]!;
  return postfix(dims.length === 1 ? text : `reinterpret_cast<${type} (&)[${countOf({ dims })}]>(${text})`);
}

function wgmma({ prelude, places, values }: Use): Text {
  const [sums, a, b] = places as readonly [PlaceText, PlaceText, PlaceText];
  const [transposedA, transposedB, fresh] = values.map((v) => v.op === 'const' && v.arg === true) as [
    boolean,
    boolean,
    boolean,
  ];
  const held = isHeld('left', a.memory);
  const { dtype } = b.memory.type;
  const count = sums.memory.type.dims.at(-1)!;
  const type = operandType(dtype);
  const shape = `m${WGMMA_ROWS}n${2 * count}k${wgmmaDepth(dtype.bytes)}`;
  const added = WGMMA_OPERANDS[dtype.name]!;
  const [T, register] = REGISTERS[added]!;
  // Of floats: operands may be negated, those of 16 bits transposed.
  const order = dtype.bytes !== 2 ? '' : `, ${held ? '' : `${Number(transposedA)}, `}${Number(transposedB)}`;
  const ways = added === 'f32' ? `, 1, 1${order}` : '';
  const kind = `${held ? '_held' : ''}${transposedA ? '_ta' : ''}${transposedB ? '_tb' : ''}${fresh ? '_fresh' : ''}`;
  const isNamed = areNamed(prelude, sums);
  const name = `wgmma_${shape}_${type}${kind}${isNamed ? `_${sums.name}` : ''}`;
  prelude.define(name, () => {
    const first = isNamed ? 0 : count;
    const words = held ? WGMMA_WORDS : 1;
    const left = held ? `{${numbered(words, first)}}` : `%${first}`;
    const given = held ? listed(words, (i) => `"r"(a[${i}])`) : '"l"(a)';
    const product = (row: number): string => {
      const registers = listed(count, (i) => (isNamed ? `${sums.name}_${row * count + i}` : `%${i}`));
      const updated = isNamed ? '' : `${listed(count, (i) => `"+${register}"(d[${i}])`)} `;
      return `asm volatile("{\\n.reg .pred add;\\nsetp.ne.b32 add, ${Number(!fresh)}, 0;\\n"
    "wgmma.mma_async.sync.aligned.${shape}.${added === 'i32' ? 's32' : added}.${type}.${type} {${registers}}, ${left}, %${first + words}, add${ways};\\n}"
    : ${updated}: ${given}, "l"(b));`;
    };
    const rows = isNamed ? countOf(sums.memory.type) / count : 1;
    const body = listed(rows, (row) => `  ${rows > 1 ? `if (row == ${row}) ` : ''}${product(row)}\n`, '');
    return `__device__ __forceinline__ void ${name}(${isNamed ? 'int row' : `${T} (&d)[${count}]`}, ${held ? `unsigned (&a)[${WGMMA_WORDS}]` : 'unsigned long long a'}, unsigned long long b) {\n${body}}`;
  });
  return call(
    name,
    postfix(isNamed ? rowOf({ ...sums, indices: [...sums.indices, postfix('0')] }) : sums.text),
    held ? postfix(a.text) : descriptor(prelude, a, transposedA),
    descriptor(prelude, b, transposedB),
  );
}

/** Lets no access to the sums move over it. */
function heldSums(
  prelude: Prelude,
  { memory, text }: PlaceText,
): { readonly name: string; readonly sums: Text } {
  const count = countOf(memory.type);
  const [type, register] = REGISTERS[memory.type.dtype.name]!;
  const name = `hold_${type === 'unsigned' ? 'words' : type === 'int' ? 'whole_sums' : 'sums'}_${count}`;
  prelude.define(
    name,
    () =>
      `__device__ __forceinline__ void ${name}(${type} (&d)[${count}]) {
#pragma unroll
  for (int i = 0; i < ${count}; i++) asm volatile("" : "+${register}"(d[i]) :: "memory");
}`,
  );
  return { name, sums: flat(memory, text) };
}

function fenceWgmma({ prelude, places: [at] }: Use): Text {
  if (areNamed(prelude, at!)) return postfix('fence_wgmma()');
  const { name, sums } = heldSums(prelude, at!);
  return postfix(`${call(name, sums).text}, fence_wgmma()`);
}

/** A copy to the tile of this block, or of several of the cluster. */
const loadOf = (name: string, multicast: '' | '.multicast::cluster') =>
  copyOf(
    name,
    ({ rank, isWalk, coordinates, offsets, mask }) =>
      `cp.async.bulk.tensor.${rank}d.shared::cluster.global.${isWalk ? 'im2col' : 'tile'}.mbarrier::complete_tx::bytes${multicast} ` +
      `[%0], [%1, {${coordinates}}], [%2]${offsets && `, {${offsets}}`}${mask};`,
    1,
    0,
    2,
  );

/** In a kernel with clusters it sees what those of other blocks have done who have arrived. */
const waitBarrier = (use: Use): Text => {
  const scope = use.prelude.hasClusters ? '.acquire.cluster' : '';
  return onBarrier(
    'wait_barrier',
    `{\\n.reg .pred done;\\nagain:\\nmbarrier.try_wait.parity${scope}.shared::cta.b64 done, [%0], %1;\\n@!done bra again;\\n}`,
    ['phase'],
    'phase & 1',
  )(use);
};

const TABLE: Readonly<Record<Asynchronous, (use: Use) => Text>> = {
  initBarrier: onBarrier(
    'init_barrier',
    'mbarrier.init.shared::cta.b64 [%0], %1;\\nfence.mbarrier_init.release.cluster;',
    ['arrivals'],
  ),
  arrive: onBarrier('arrive', 'mbarrier.arrive.shared::cta.b64 _, [%0];'),
  arriveExpect: onBarrier('arrive_expect', 'mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;', [
    'bytes',
  ]),
  arriveCopies: onBarrier('arrive_copies', 'cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];'),
  arriveRemote: onRemoteBarrier,
  storeRemote,
  waitBarrier,
  tmaLoad: loadOf('tma_load', ''),
  tmaLoadMulticast: loadOf('tma_load_multicast', '.multicast::cluster'),
  tmaStore: copyOf(
    'tma_store',
    ({ rank, isWalk, coordinates }) =>
      `cp.async.bulk.tensor.${rank}d.global.shared::cta.${isWalk ? 'im2col_no_offs' : 'tile'}.bulk_group [%1, {${coordinates}}], [%0];`,
    0,
    1,
  ),
  tmaCommit: plain('tma_commit', 'cp.async.bulk.commit_group;'),
  tmaWait: plain('tma_wait', 'cp.async.bulk.wait_group.read N;'),
  fenceAsync: plain('fence_async', 'fence.proxy.async.shared::cta;'),
  wgmma,
  clearSums,
  fenceWgmma,
  commitWgmma: plain('commit_wgmma', 'wgmma.commit_group.sync.aligned;'),
  // While products still work, moving their sums would make the compiler wait for each of them.
  waitWgmma: (use) => {
    const wait = plain('wait_wgmma', 'wgmma.wait_group.sync.aligned N;')(use);
    if (use.args[0]!.text !== '0') return wait;
    const at = use.places[0]!;
    if (areNamed(use.prelude, at)) return postfix(`${wait.text}, ${takeSums(use.prelude, at).text}`);
    const { name, sums } = heldSums(use.prelude, at);
    return postfix(`${wait.text}, ${call(name, sums).text}`);
  },
  groupBarrier: ({ prelude, args }) =>
    instruction(
      prelude,
      'group_barrier',
      'unsigned id, unsigned threads',
      '"bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"',
      args,
    ),
  arriveCluster: plain('arrive_cluster', 'barrier.cluster.arrive.release;'),
  waitCluster: plain('wait_cluster', 'barrier.cluster.wait.acquire;'),
  raiseRegisters: plain('raise_registers', 'setmaxnreg.inc.sync.aligned.u32 N;'),
  lowerRegisters: plain('lower_registers', 'setmaxnreg.dec.sync.aligned.u32 N;'),
};

/** The call of an operation of the copy engine, of mbarriers or of warpgroups. */
export function asynchronousCall(
  prelude: Prelude,
  name: Asynchronous,
  places: readonly PlaceText[],
  values: readonly Expr[],
  args: readonly Text[],
): Text {
  if (places.some(({ memory }) => memory.op === 'buffer'))
    prelude.define('TensorMap', () => 'struct alignas(64) TensorMap { unsigned long long words[16]; };');
  if (name === 'fenceWgmma')
    prelude.define(
      'fence_wgmma',
      () =>
        '__device__ __forceinline__ void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }',
    );
  return TABLE[name]({ prelude, places, args, values });
}
