/** Expressions of constants alone, computed once. */
import { sha256Hex } from '#platform/hash.js';
import { topological } from '../core/node.js';
import { bufferOf, copyTo, realize } from '../engine/realize.js';
import type { BufferStorage } from '../engine/storage.js';
import * as b from '../graph/build.js';
import { argOf, GraphNode } from '../graph/node.js';
import type { Device } from '../runtime/device.js';
import { fingerprint } from '../schedule/passes/canonical.js';

const sources = (node: GraphNode): readonly GraphNode[] => (node.isLeaf ? [] : node.src);

/** The nodes below `roots` that depend on no input: leaves with values, and what is computed of these and of literals alone. */
export function constantsOf(roots: readonly GraphNode[]): Set<GraphNode> {
  const constants = new Set<GraphNode>();
  for (const node of topological(roots, sources))
    if (node.isLeaf ? node.storage : node.src.every((s) => constants.has(s))) constants.add(node);
  return constants;
}

/** Values that are known without memory, or that other nodes have: the same elements, moved or repeated. */
const isMoved = ({ op }: GraphNode): boolean =>
  op === 'reshape' || op === 'permute' || op === 'expand' || op === 'detach';
const isLiteral = ({ op }: GraphNode): boolean => op === 'full' || op === 'iota';

/** A constant without its repeated elements. */
export function unexpanded(node: GraphNode): GraphNode {
  if (node.isLeaf) return node;
  if (node.op === 'expand') return unexpanded(node.src[0]!);
  const isUniform = node.op === 'full';
  return isUniform
    ? b.full(
        node.shape.map(() => 1),
        node.dtype,
        argOf(node, 'full').value,
      )
    : node;
}

/** Values that the graphs of one model share. */
export class ConstantValues {
  readonly #known = new Map<string, BufferStorage>();
  readonly #scalars = new Map<string, GraphNode>();
  readonly #numbers = new Map<object, number>();
  readonly #shared = new Map<string, BufferStorage>();
  readonly #copies = new Map<object, Promise<GraphNode>>();

  /**
   * Compute each largest expression of constants below `roots`: its node is a leaf then. What only moves or repeats elements
   * stays on top of it, since a kernel reads through that.
   */
  compute(roots: readonly GraphNode[]): void {
    const constants = constantsOf(roots);
    const wanted = new Set<GraphNode>();
    const want = (node: GraphNode): void => {
      let at = node;
      while (!at.isLeaf && isMoved(at)) at = at.src[0]!;
      if (!at.isLeaf && !isLiteral(at)) wanted.add(at);
    };
    for (const root of roots) if (constants.has(root)) want(root);
    for (const node of topological(roots, (n) => (constants.has(n) ? [] : sources(n))))
      for (const source of constants.has(node) ? [] : sources(node)) if (constants.has(source)) want(source);
    const keys = [...wanted].map((node) => [node, this.#keyOf(node)] as const);
    for (const [node, key] of keys) {
      const known = this.#known.get(key);
      if (known) node.realized(known);
    }
    realize([...wanted]);
    for (const [node, key] of keys) {
      bufferOf(node);
      this.#known.set(key, node.storage as BufferStorage);
    }
  }

  /** The graph of `roots` with equal constants of one element as one, so that what is computed of them is computed once. */
  async sharing(roots: readonly GraphNode[]): Promise<GraphNode[]> {
    const made = new Map<GraphNode, GraphNode>();
    for (const node of topological(roots, sources)) {
      if (node.isLeaf) made.set(node, node.storage && node.size === 1 ? await this.#scalar(node) : node);
      else {
        const src = node.src.map((s) => made.get(s)!);
        const isSame = src.every((s, i) => s === node.src[i]);
        made.set(node, isSame ? node : new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad));
      }
    }
    return roots.map((root) => made.get(root)!);
  }

  /** The first constant with the value of this one. */
  async #scalar(node: GraphNode): Promise<GraphNode> {
    const { buffer, bytes } = node.storage as BufferStorage;
    const value = (await buffer.device.read(buffer, 0, bytes)).join(' ');
    const key = `${node.dtype.name} ${node.shape.join(' ')}: ${value}`;
    const known = this.#scalars.get(key) ?? node;
    this.#scalars.set(key, known);
    return known;
  }

  /** The memory of a constant on a device: its own, or a copy. */
  async on({ name }: Device, leaf: GraphNode): Promise<BufferStorage> {
    const { storage } = leaf;
    const copy = this.#copies.get(storage!) ?? copyTo(leaf, name);
    this.#copies.set(storage!, copy);
    return (await copy).storage as BufferStorage;
  }

  /** Memory with these values: that of an equal one which is there already. */
  async shared(storage: BufferStorage): Promise<BufferStorage> {
    const { buffer } = storage;
    const key = sha256Hex(await buffer.device.read(buffer, 0, storage.bytes));
    const known = this.#shared.get(key);
    if (known) storage.release();
    else this.#shared.set(key, storage);
    return known ?? storage;
  }

  /** Equal for equal expressions of the same memory. */
  #keyOf(node: GraphNode): string {
    const { text, leaves } = fingerprint([node]);
    const numbers = leaves.map(({ storage }) => {
      const number = this.#numbers.get(storage!) ?? this.#numbers.size;
      this.#numbers.set(storage!, number);
      return number;
    });
    return `${text}\n${numbers.join(' ')}`;
  }
}
