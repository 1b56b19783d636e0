/**
 * Tensors that a launch only puts together of others: a concatenation, a value with padding behind it, or the gradient of what was
 * split, which is a sum of gradients padded with zeros. Whoever makes a part stores it where it belongs in the memory of the whole;
 * what else there is of it, such as a leaf, is copied there. The gradients of queries, keys and values so become the one of their
 * joint projection.
 */
import { isFloat } from '../../core/dtype.js';
import { stridesOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, type Region, readsOf } from '../group.js';
import type { Plan, PlanSetting } from '../plan.js';
import type { Partition } from './partition.js';
import { bytesOfLaunch } from './shared-values.js';
import { reshapedStrides } from './views.js';

/** A part of a node: its elements from `start` on are those of `value`. */
interface Part {
  readonly value: GraphNode;
  readonly start: readonly number[];
}

/** What a node is put together of, and the value of its elements that are in no part, if all have the same. */
interface Parts {
  readonly parts: readonly Part[];
  readonly rest: number | undefined;
}

/** Store parts in the memory of what is put together of them. */
export function placeParts(plan: Plan, { target, updates }: PlanSetting): Partition {
  const { roots } = plan;
  const results = new Set(roots);
  const overwriting = new Set([...updates.keys()].map((root) => roots[root]!));
  let { groups, stored }: Partition = plan;
  for (const group of plan.groups) {
    const [whole, another] = group.roots as [GraphNode, GraphNode?];
    if (group.call || group.reduction || another || overwriting.has(whole)) continue;
    const known = partsOf(whole, stored);
    const padding = known && paddingOf(known, whole);
    const parts = [...(known?.parts ?? []), ...(padding ? [padding] : [])];
    if (fill(parts, whole)) {
      const placed = placedIn(group, parts, padding !== undefined, { groups, stored }, results, target);
      if (placed) ({ groups, stored } = placed);
    }
  }
  return { groups, stored };
}

/** The parts of a node: undefined where it is anything else. @param isWhole it may be stored */
function partsOf(node: GraphNode, stored: ReadonlySet<GraphNode>, isWhole = true): Parts | undefined {
  if (node.isLeaf || (stored.has(node) && !isWhole)) return undefined;
  const of = (n: GraphNode): Parts | undefined => partsOf(n, stored, false);
  switch (node.op) {
    case 'pad': {
      const { before, value } = argOf(node, 'pad');
      return { parts: [{ value: node.src[0]!, start: before }], rest: value };
    }
    case 'detach':
      return of(node.src[0]!);
    case 'map':
      return ofMap(node, of);
    default:
      return undefined;
  }
}

function ofMap(node: GraphNode, of: (n: GraphNode) => Parts | undefined): Parts | undefined {
  const [x, y, z] = node.src as [GraphNode, GraphNode, GraphNode];
  switch (argOf(node, 'map').op) {
    case 'cast': {
      const cast = of(x);
      const isExact = cast?.parts.every(({ value: { dtype } }) => holds(node, dtype));
      return isExact ? { ...cast!, rest: cast!.rest === 0 ? 0 : undefined } : undefined;
    }
    case 'add': {
      const [a, b] = [of(x), of(y)];
      return a?.rest === 0 && b?.rest === 0 && areApart([...a.parts, ...b.parts])
        ? { parts: [...a.parts, ...b.parts], rest: 0 }
        : undefined;
    }
    case 'select': {
      const limit = limitOf(x);
      const [first, second] = [of(y), of(z)];
      if (!limit || !first || !second) return undefined;
      const { axis, below } = limit;
      const isFirst = ({ start, value }: Part): boolean => start[axis]! + value.shape[axis]! <= below;
      const isSecond = ({ start }: Part): boolean => start[axis]! >= below;
      if (![...first.parts, ...second.parts].every((part) => isFirst(part) || isSecond(part)))
        return undefined;
      return { parts: [...first.parts.filter(isFirst), ...second.parts.filter(isSecond)], rest: undefined };
    }
    default:
      return undefined;
  }
}

/** Whether the dtype of `node` has all values of another. */
const holds = ({ dtype }: GraphNode, other: GraphNode['dtype']): boolean =>
  dtype === other || (isFloat(dtype) && isFloat(other) && dtype.bytes > other.bytes);

/** Of a mask of the positions along an axis that are below a number: both. */
function limitOf(mask: GraphNode): { readonly axis: number; readonly below: number } | undefined {
  if (mask.op !== 'map' || argOf(mask, 'map').op !== 'lt') return undefined;
  const [position, limit] = mask.src as [GraphNode, GraphNode];
  const below = numberOf(limit);
  return position.op === 'iota' && below !== undefined
    ? { axis: argOf(position, 'iota').axis, below }
    : undefined;
}

const numberOf = (node: GraphNode): number | undefined =>
  node.op === 'full'
    ? Number(argOf(node, 'full').value)
    : node.op === 'expand'
      ? numberOf(node.src[0]!)
      : undefined;

/** Whether no two parts have an element in common. */
const areApart = (parts: readonly Part[]): boolean =>
  parts.every((a, i) =>
    parts
      .slice(0, i)
      .every((b) =>
        a.start.some(
          (from, axis) =>
            from + a.value.shape[axis]! <= b.start[axis]! || b.start[axis]! + b.value.shape[axis]! <= from,
        ),
      ),
  );

/** The padding behind the only part along one axis, where vectors of its rows stay aligned. */
function paddingOf({ parts: [part, another], rest }: Parts, { shape, dtype }: GraphNode): Part | undefined {
  if (!part || another || rest === undefined || part.start.some((n) => n !== 0)) return undefined;
  const own = part.value.shape;
  const [axis, second] = shape.flatMap((n, i) => (n === own[i] ? [] : [i]));
  const isAligned = [2, 4].every((lanes) => own.at(-1)! % lanes !== 0 || shape.at(-1)! % lanes === 0);
  if (axis === undefined || second !== undefined || !isAligned) return undefined;
  const value = b.full(
    shape.map((n, i) => (i === axis ? n - own[i]! : n)),
    dtype,
    rest,
  );
  return { value, start: shape.map((_, i) => (i === axis ? own[i]! : 0)) };
}

/** Whether the parts are all there is. */
const fill = (parts: readonly Part[], { size }: GraphNode): boolean =>
  size > 0 && parts.reduce((n, { value }) => n + value.size, 0) === size && areApart(parts);

/**
 * The partition with what can be stored in its place there; undefined if that gains nothing.
 * @param isPadded the last part is padding
 */
function placedIn(
  group: Group,
  parts: readonly Part[],
  isPadded: boolean,
  { groups, stored }: Partition,
  results: ReadonlySet<GraphNode>,
  { units }: Target,
): Partition | undefined {
  const [whole] = group.roots as [GraphNode];
  const placed = new Map<GraphNode, Region>();
  const copies: Group[] = [];
  let saved = 0;
  for (const { value, start } of parts) {
    const strides = stridesOf(whole.shape);
    const at = { whole, strides, offset: start.reduce((n, s, axis) => n + s * strides[axis]!, 0) };
    const own = value.dtype === whole.dtype ? regionBelow(value, at, stored) : undefined;
    const along = own && liesAlong(own.node, own.region) ? own : undefined;
    if (along && !placed.has(along.node) && canPlace(along, group, { groups, stored }, results)) {
      placed.set(along.node, along.region);
      saved += 2 * value.size * value.dtype.bytes;
      continue;
    }
    // A kernel of its own reads what lies across it in squares (lower/squares.ts), one of the whole element by element.
    if (own && !along) saved += value.size * value.dtype.bytes;
    const copy = value.dtype === whole.dtype ? b.detach(value) : b.cast(value, whole.dtype);
    copies.push({ roots: [copy], regions: new Map([[copy, at]]) });
  }
  if ((placed.size === 0 && !isPadded) || saved <= (copies.length - 1) * bytesOfLaunch(units))
    return undefined;
  // Whoever copies one part has no way to wait for another: `cat` of a value with itself, or with what is made of it.
  const readsPlaced = ([copy]: readonly GraphNode[]): boolean =>
    [...readsOf(copy!, stored)].some((n) => placed.has(n));
  if (copies.some(({ roots }) => readsPlaced(roots))) return undefined;
  const inPlace = (other: Group): Group => {
    const own = other.roots.filter((root) => placed.has(root));
    if (own.length === 0) return other;
    return {
      ...other,
      regions: new Map([...(other.regions ?? []), ...own.map((root) => [root, placed.get(root)!] as const)]),
    };
  };
  return {
    groups: groups.flatMap((other) => (other === group ? copies : [inPlace(other)])),
    stored: new Set([...stored, ...copies.flatMap(({ roots }) => roots)]),
  };
}

/** Whether neighbouring elements of a node are neighbours there. */
function liesAlong({ shape }: GraphNode, { strides }: Region): boolean {
  const last = shape.findLastIndex((n) => n > 1);
  return last < 0 || strides[last] === 1;
}

/** The stored node that `value` is a view of, all of its elements, and where it is if `value` is at `region`. */
function regionBelow(
  value: GraphNode,
  region: Region,
  stored: ReadonlySet<GraphNode>,
): { readonly node: GraphNode; readonly region: Region } | undefined {
  if (stored.has(value)) return { node: value, region };
  const [below] = value.src;
  switch (value.op) {
    case 'detach':
      return regionBelow(below!, region, stored);
    case 'permute': {
      const { axes } = argOf(value, 'permute');
      const strides = axes.map((_, axis) => region.strides[axes.indexOf(axis)]!);
      return regionBelow(below!, { ...region, strides }, stored);
    }
    case 'reshape': {
      const strides = reshapedStrides({ shape: value.shape, strides: region.strides }, below!.shape);
      return strides && regionBelow(below!, { ...region, strides }, stored);
    }
    default:
      return undefined;
  }
}

/** Whether whoever makes a node can store it there, and nobody but `group` reads it. */
function canPlace(
  { node, region }: { readonly node: GraphNode; readonly region: Region },
  group: Group,
  { groups, stored }: Partition,
  results: ReadonlySet<GraphNode>,
): boolean {
  const maker = groups.find(({ roots }) => roots.includes(node));
  if (!maker || maker.regions?.has(node) || results.has(node) || node.size === 0) return false;
  const isRead = (other: Group): boolean =>
    other.roots.some((root) => root !== node && readsOf(root, stored).has(node));
  if (groups.some((other) => other !== group && other !== maker && isRead(other))) return false;
  if (!maker.call) return true;
  const { choice, also } = maker.call;
  const isStored = node === maker.roots[0] || also.includes(node);
  const view = { shape: node.shape, dtype: node.dtype, strides: region.strides, offset: region.offset };
  return isStored && choice.places?.(view) === true;
}
