/** Sums of products by named dimensions. */
import { aString, requireArgument, requireOptions } from '../core/arguments.js';
import { type DTypeName, isFloat } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import type { Precision } from '../core/precision.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { matmul } from '../ops/matmul/op.js';
import { forProduct } from './autocast.js';
import { requireTensors } from './checks.js';
import { getPrecision } from './precision.js';
import { MATMUL, type MatmulOptions, Tensor } from './tensor.js';

/** A subscript: a letter, or one of the dimensions that '...' stands for, counted from the last. */
type Subscript = string;

/** A value whose dimensions have names, no two the same. */
interface Subscripted {
  readonly x: GraphNode;
  readonly labels: readonly Subscript[];
}

const LETTERS_AND_DOTS = /^[A-Za-z]*(?:\.\.\.[A-Za-z]*)?$/;

/** The letters of a term, and how many stand before '...' (undefined without one). */
interface Term {
  readonly text: string;
  readonly letters: readonly string[];
  readonly dots: number | undefined;
}

function termOf(text: string): Term {
  if (!LETTERS_AND_DOTS.test(text))
    throw new ArgumentError(
      `[einsum] '${text}' is not a list of subscripts: letters, and '...' once for any other dimensions.`,
    );
  const dots = text.indexOf('...');
  return { text, letters: [...text.replace('...', '')], dots: dots < 0 ? undefined : dots };
}

/** The labels of a term for so many dimensions. */
const labelsOf = ({ letters, dots = letters.length }: Term, rank: number): Subscript[] => {
  const more = Math.max(0, rank - letters.length);
  const others = Array.from({ length: more }, (_, i) => `...${more - i}`);
  return [...letters.slice(0, dots), ...others, ...letters.slice(dots)];
};

function parse(equation: string, tensors: readonly GraphNode[]) {
  const [left, right, ...rest] = equation.replaceAll(' ', '').split('->');
  if (rest.length > 0) throw new ArgumentError(`[einsum] '${equation}' has '->' more than once.`);
  const terms = left!.split(',').map(termOf);
  if (terms.length !== tensors.length)
    throw new ArgumentError(
      `[einsum] '${equation}' has subscripts for ${terms.length} tensors, got ${tensors.length}.`,
    );
  const inputs = tensors.map(({ shape }, i) => {
    const term = terms[i]!;
    if (shape.length < term.letters.length || (term.dots === undefined && shape.length > term.letters.length))
      throw new ShapeError(
        `[einsum] '${term.text}' has ${term.letters.length} subscripts, tensor ${i} is ${formatShape(shape)} with ${shape.length} dimensions.`,
      );
    return labelsOf(term, shape.length);
  });
  const all = inputs.flat();
  const dots = [...new Set(all.filter((l) => l.startsWith('.')))].sort().reverse();
  const once = [...new Set(all)].filter((l) => !dots.includes(l) && all.indexOf(l) === all.lastIndexOf(l));
  if (right === undefined) return { inputs, output: [...dots, ...once.sort()] };
  const term = termOf(right);
  const output = labelsOf(term, term.dots === undefined ? 0 : term.letters.length + dots.length);
  for (const l of term.letters) {
    if (!all.includes(l))
      throw new ArgumentError(
        `[einsum] the result '${right}' has the subscript '${l}', which none of the tensors '${left}' has.`,
      );
    if (term.letters.indexOf(l) !== term.letters.lastIndexOf(l))
      throw new ArgumentError(`[einsum] the subscript '${l}' stands twice in the result '${right}'.`);
  }
  return { inputs, output };
}

/** The size of each label. Sizes of 1 are broadcast. @throws ShapeError */
function sizesOf(
  inputs: readonly (readonly Subscript[])[],
  tensors: readonly GraphNode[],
): Map<Subscript, number> {
  const sizes = new Map<Subscript, number>();
  inputs.forEach((labels, i) => {
    labels.forEach((label, d) => {
      const [known = 1, size] = [sizes.get(label), tensors[i]!.shape[d]!];
      if (known !== 1 && size !== 1 && known !== size)
        throw new ShapeError(
          `[einsum] the subscript '${label.slice(0, 3)}' is ${known} and ${size}: tensor ${i} is ${formatShape(tensors[i]!.shape)}.`,
        );
      sizes.set(label, known === 1 ? size : known);
    });
  });
  return sizes;
}

/** Of dimensions with the same label, the diagonal. */
function diagonal({ x, labels }: Subscripted): Subscripted {
  const second = labels.findIndex((l, i) => labels.indexOf(l) < i);
  if (second < 0) return { x, labels };
  const first = labels.indexOf(labels[second]!);
  const n = x.shape[first]!;
  const others = labels.flatMap((_, i) => (i === first || i === second ? [] : [i]));
  const lead = others.map((i) => x.shape[i]!);
  const square = b.reshape(b.permute(x, [...others, first, second]), [...lead, n * n]);
  const zeros = lead.map(() => 0);
  const steps = [...lead.map(() => 1), n + 1];
  const picked = b.slice(square, [...zeros, 0], [...lead, n], steps);
  return diagonal({ x: picked, labels: [...others.map((i) => labels[i]!), labels[first]!] });
}

/** Summed over the labels that are not `kept`. */
function summed({ x, labels }: Subscripted, kept: ReadonlySet<Subscript>): Subscripted {
  const axes = labels.flatMap((l, i) => (kept.has(l) ? [] : [i]));
  if (axes.length === 0) return { x, labels };
  const left = labels.filter((l) => kept.has(l));
  const shape = x.shape.filter((_, i) => !axes.includes(i));
  return { x: b.reshape(b.sum(x, axes), shape), labels: left };
}

/** Dimensions in this order; a label that it does not have has size 1. */
const arranged = ({ x, labels }: Subscripted, order: readonly Subscript[]): GraphNode => {
  const own = order.filter((l) => labels.includes(l));
  const permuted = b.permute(
    x,
    own.map((l) => labels.indexOf(l)),
  );
  return b.reshape(
    permuted,
    order.map((l) => (labels.includes(l) ? x.shape[labels.indexOf(l)]! : 1)),
  );
};

/** The product of two, summed over what is not `kept`. */
function contracted(
  p: Subscripted,
  q: Subscripted,
  kept: ReadonlySet<Subscript>,
  precision: Precision,
): Subscripted {
  const shared = p.labels.filter((l) => q.labels.includes(l));
  const keptOr = (labels: readonly Subscript[]): Set<Subscript> => new Set([...kept, ...labels]);
  const [left, right] = [summed(p, keptOr(q.labels)), summed(q, keptOr(p.labels))];
  const [batch, inner] = [shared.filter((l) => kept.has(l)), shared.filter((l) => !kept.has(l))];
  const [rows, columns] = [left, right].map(({ labels }) => labels.filter((l) => !shared.includes(l)));
  const labels = [...batch, ...rows!, ...columns!];
  if (inner.length === 0 || !isFloat(left.x.dtype)) {
    const order = [...labels, ...inner];
    return summed({ x: b.mul(arranged(left, order), arranged(right, order)), labels: order }, kept);
  }
  const size = (n: Subscripted, of: readonly Subscript[]): number =>
    of.reduce((total, l) => total * n.x.shape[n.labels.indexOf(l)]!, 1);
  const [count, k] = [size(left, batch), size(left, inner)];
  const [m, n] = [size(left, rows!), size(right, columns!)];
  const matrices = (of: Subscripted, order: readonly Subscript[], ...sizes: number[]): GraphNode =>
    b.reshape(arranged(of, order), batch.length > 0 ? [count, ...sizes] : sizes);
  const product = matmul(
    matrices(left, [...batch, ...rows!, ...inner], m, k),
    matrices(right, [...batch, ...inner, ...columns!], k, n),
    precision,
  );
  const shape = labels.map((l) => {
    const of = left.labels.includes(l) ? left : right;
    return of.x.shape[of.labels.indexOf(l)]!;
  });
  return { x: b.reshape(product, shape), labels };
}

/**
 * Sums of products by named dimensions, as PyTorch's and NumPy's: in 'bij,bjk->bik' what has one letter runs together, and
 * what the result does not name is summed over. '...' stands for any other dimensions, which broadcast. A letter twice in
 * one tensor takes its diagonal. Without '->' the result has the letters that occur once, in alphabetical order. Tensors
 * are multiplied from the left to the right, two at a time, by matrix products where they share what is summed.
 * @example
 * ```ts
 * import { einsum, randn } from 'heddle';
 *
 * const [queries, keys] = [randn([2, 4, 10, 16]), randn([2, 4, 12, 16])];
 * console.log(einsum('bhqd,bhkd->bhqk', [queries, keys]).shape); // → [ 2, 4, 10, 12 ]
 * ```
 * @throws ArgumentError, ShapeError, DTypeError
 */
export function einsum<D extends DTypeName>(
  equation: string,
  tensors: readonly Tensor<Shape, D>[],
  options: MatmulOptions = {},
): Tensor<Shape, D> {
  requireArgument('einsum', 'equation', equation, aString);
  requireTensors('einsum', 'tensors', tensors);
  requireOptions('einsum', options, MATMUL);
  const nodes = tensors.map(({ node }) => (tensors.length > 1 ? forProduct(node) : node));
  const [first] = nodes;
  if (!first) throw new ArgumentError('[einsum] takes at least one tensor.');
  for (const [i, { dtype }] of nodes.entries())
    if (dtype !== first.dtype)
      throw new DTypeError(
        `[einsum] dtypes differ: ${first.dtype.name} and, of tensor ${i}, ${dtype.name}. Convert one with .cast(${first.dtype.name}).`,
      );
  const { inputs, output } = parse(equation, nodes);
  const sizes = sizesOf(inputs, nodes);
  const given = nodes.map((x, i): Subscripted => {
    const labels = inputs[i]!;
    return diagonal({
      x: b.expand(
        x,
        labels.map((l) => sizes.get(l)!),
      ),
      labels,
    });
  });
  const neededAfter = (i: number): Set<Subscript> => new Set([...output, ...inputs.slice(i + 1).flat()]);
  const precision = options.precision ?? getPrecision().matmul;
  const result = given
    .slice(1)
    .reduce((done, next, i) => contracted(done, next, neededAfter(i + 1), precision), given[0]!);
  return new Tensor(arranged(summed(result, new Set(output)), output));
}
