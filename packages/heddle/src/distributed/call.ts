/** One call of a collective, as ranks tell each other of it before they exchange values. */
import { DTYPES, type DTypeName } from '../core/dtype.js';
import { ArgumentError, DistributedError } from '../core/errors.js';
import type { HostValues, Peers, ReductionOp, Transport } from './transport.js';

const KINDS = ['allReduce', 'broadcast', 'allGather', 'reduceScatter', 'barrier', 'gatherOthers'] as const;
const OPS = ['sum', 'prod', 'min', 'max'] as const;
const NAMES = Object.keys(DTYPES) as DTypeName[];

/** What ranks tell each other that they do. */
export type ToldKind = (typeof KINDS)[number];

/** A method of `Transport`. */
export type CallKind = ToldKind & keyof Transport;

/** What a call does, and to which memory. */
export interface CollectiveCall {
  readonly kind: CallKind;
  /** Its ranks in the world, and the place of this rank among them. */
  readonly ranks: readonly number[];
  readonly index: number;
  /** From 0, counted by the ranks of the group. */
  readonly sequence: number;
  readonly dtype: DTypeName;
  readonly op: ReductionOp;
  /** Of a broadcast: an index of `ranks`. */
  readonly root: number;
  /** Identifies the orders of dimensions that the values are in. */
  readonly orders: number;
  readonly from: Uint8Array;
  readonly to: Uint8Array;
}

const NOTHING: HostValues = { bytes: new Uint8Array(0), dtype: 'u8' };

/** Makes the calls of one process, counts them for each group, and checks that the memory fits. */
export class CallCounter {
  readonly #counts = new Map<string, number>();

  /** @throws ArgumentError if the lengths or dtypes of `from` and `to` do not fit */
  next(
    kind: CallKind,
    { ranks, index }: Peers,
    from: HostValues = NOTHING,
    to: HostValues = from,
    { op = 'sum', root = 0 }: { readonly op?: ReductionOp; readonly root?: number } = {},
  ): CollectiveCall {
    requireFit(kind, ranks.length, from, to);
    const group = ranks.join(',');
    const sequence = this.#counts.get(group) ?? 0;
    this.#counts.set(group, sequence + 1);
    const { dtype, orders = 0 } = from;
    const memory = { from: from.bytes, to: to.bytes, dtype, orders };
    return { kind, ranks, index, sequence, op, root, ...memory };
  }
}

function requireFit(kind: CallKind, ranks: number, from: HostValues, to: HostValues): void {
  const [many, one] = kind === 'reduceScatter' ? [from, to] : [to, from];
  const times = kind === 'reduceScatter' || kind === 'allGather' ? ranks : 1;
  if (many.dtype !== one.dtype || many.bytes.length !== times * one.bytes.length)
    throw new ArgumentError(
      `[${kind}] from has ${from.bytes.length} bytes of ${from.dtype}, to has ${to.bytes.length} of ${to.dtype}: with ` +
        `${ranks} ranks ${one === from ? 'to' : 'from'} must have ${times} × as many, of the same dtype.`,
    );
}

/** Words of a header, which are i32. */
export const HEADER_WORDS = 9;
/** The last one. */
const ORDERS = HEADER_WORDS - 1;
export const HEADER_BYTES: number = 4 * HEADER_WORDS;

/** What ranks compare: equal headers are calls that fit together. */
export function headerOf(call: CollectiveCall): Uint8Array {
  const elements = call.from.length / DTYPES[call.dtype].bytes;
  return new Uint8Array(headerWords({ ...call, elements }).buffer);
}

/** A call without its memory. */
export interface CalledCollective extends Omit<CollectiveCall, 'kind' | 'index' | 'from' | 'to'> {
  readonly kind: ToldKind;
  readonly elements: number;
}

export function headerWords(call: CalledCollective): Int32Array<ArrayBuffer> {
  const { kind, op, dtype, root, ranks, sequence, elements, orders } = call;
  const words = new Int32Array(HEADER_WORDS);
  words.set([KINDS.indexOf(kind), OPS.indexOf(op), NAMES.indexOf(dtype), ranks[root]!, ranks.length]);
  // Twelve bits for the rest of a length are enough: 2⁴⁴ elements.
  const high = Math.floor(elements / 2 ** 32) | (digest(ranks) << 12);
  words.set([sequence, elements % 2 ** 32, high, orders], 5);
  return words;
}

/** Identifies a call on all ranks of its group: the group, and how many calls it made before. */
export const placeKey = ([, , , , ranks = 0, sequence = 0, , high = 0]: Int32Array): string =>
  `${ranks} ${high >>> 12} ${sequence}`;

/** FNV-1a: two lists of the same length, such as the ranks of two groups, rarely have the same. */
export const digest = (numbers: readonly number[]): number =>
  numbers.reduce((hash, number) => Math.imul(hash ^ number, 0x01000193), 0x811c9dc5);

/** @throws DistributedError that says what both ranks do, unless a peer's header is this call's */
export function requireSameCall(
  call: CollectiveCall,
  mine: Uint8Array,
  peer: number,
  theirs: Uint8Array,
): void {
  if (mine.every((byte, i) => byte === theirs[i])) return;
  const own = { rank: call.ranks[call.index]!, words: wordsOf(mine) };
  throw new DistributedError(`[distributed] ${differenceOf(own, { rank: peer, words: wordsOf(theirs) })}`);
}

/** What two ranks do that should do the same. */
export function differenceOf(first: HeaderOfRank, second: HeaderOfRank): string {
  const both = [first, second].sort((a, b) => a.rank - b.rank);
  const [a, b] = both as [HeaderOfRank, HeaderOfRank];
  const places = [placeOf(a.words), placeOf(b.words)];
  const same = places[0] === places[1];
  if (same && a.words.every((word, i) => word === b.words[i] || i === ORDERS))
    return (
      `rank ${a.rank} ${actOf(a.words)} with dimensions in another order than rank ${b.rank} in ${places[0]}. The order is chosen for the ` +
      'device: all ranks of a group need GPUs of the same kind, with the same libraries and the same version of Heddle.'
    );
  const said = both.map(
    ({ rank: r, words }, i) => `rank ${r} ${actOf(words)}${same ? '' : ` in ${places[i]}`}`,
  );
  const other = same && actOf(a.words) === actOf(b.words) ? ', with other ranks,' : '';
  return (
    `${said.join(', ')}${other}${same ? ` in ${places[0]}` : ''}. All ranks of a group must make the same calls in ` +
    'the same order, with values of the same length and dtype: is there a branch that depends on the rank or its data?'
  );
}

/** A call's header, and whose it is. */
export interface HeaderOfRank {
  readonly rank: number;
  readonly words: Int32Array;
}

const wordsOf = (header: Uint8Array): Int32Array => new Int32Array(header.slice().buffer);

function actOf([kind = 0, op = 0, dtype = 0, root = 0, , , low = 0, high = 0]: Int32Array): string {
  const values = `${(low >>> 0) + (high & 0xfff) * 2 ** 32} ${NAMES[dtype]}`;
  switch (KINDS[kind]) {
    case 'allReduce':
      return `reduces ${values} (${OPS[op]})`;
    case 'reduceScatter':
      return `reduces and scatters ${values} (${OPS[op]})`;
    case 'broadcast':
      return `broadcasts ${values} of rank ${root}`;
    case 'allGather':
      return `gathers ${values}`;
    case 'gatherOthers':
      return `gathers ${values} of the others`;
    default:
      return 'waits at a barrier';
  }
}

const placeOf = ([, , , , ranks = 0, sequence = 0]: Int32Array): string =>
  `call ${sequence + 1} of ${ranks} ranks`;
