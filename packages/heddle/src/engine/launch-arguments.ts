/** What a launch is given for the parameters of a kernel, checked. */
import { shown } from '../core/arguments.js';
import { ArgumentError, DTypeError } from '../core/errors.js';
import { topological } from '../core/node.js';
import type { GraphNode, GraphOp } from '../graph/node.js';
import type { KernelIr, Node, Param } from '../kernel/ir/ir.js';
import type { Scalar } from '../kernel/ir/ops.js';
import { type BufferSchema, isBuffer } from '../kernel/ir/types.js';
import type { ProgramArgument } from '../runtime/device.js';
import { requireNames, requireScalar } from '../runtime/launch-rules.js';
import { DeviceArray } from './device-array.js';
import type { Handle } from './trace.js';

/** What a parameter is given: a number or boolean, or the memory that a buffer parameter is. */
export type KernelArgument = Scalar | Handle | DeviceArray;

/** The arguments of a launch, in the order of the parameters. */
export interface OrderedArguments {
  readonly args: readonly ProgramArgument[];
  readonly scalars: readonly Scalar[];
  /** What the slots of `args` are. */
  readonly memory: readonly (Handle | DeviceArray)[];
  /** The tensors among them that the kernel writes to. */
  readonly changed: readonly Handle[];
}

/** @throws ArgumentError, DTypeError for what is missing, unknown or does not fit; nothing has been computed then */
export function orderArguments(
  ir: KernelIr,
  given: Readonly<Record<string, KernelArgument>>,
): OrderedArguments {
  requireNames(ir, given);
  const written = writtenBy(ir);
  const scalars: Scalar[] = [];
  const memory: (Handle | DeviceArray)[] = [];
  const changed: Handle[] = [];
  const args = ir.params.map((param): ProgramArgument => {
    const arg = given[param.name]!;
    if (!isBuffer(param.schema)) {
      const value = requireScalar(ir, param, arg);
      scalars.push(value);
      return { value };
    }
    requireMemory(ir, param.name, param.schema, arg);
    memory.push(arg);
    if (written.has(param) && !(arg instanceof DeviceArray)) {
      requireWritable(ir, param.name, arg.ownNode);
      changed.push(arg);
    }
    return { slot: memory.length - 1, offset: 0 };
  });
  return { args, scalars, memory, changed };
}

function requireMemory(
  ir: KernelIr,
  name: string,
  { dtype }: BufferSchema,
  given: unknown,
): asserts given is Handle | DeviceArray {
  const what = `[${ir.name}] ${name} is a buffer of ${dtype.name}`;
  if (given instanceof DeviceArray) {
    if (given.dtype === dtype) return;
    throw new DTypeError(`${what}, got memory of ${given.dtype.name}. Use allocate(${dtype.name}, …).`);
  }
  if (isHandle(given)) {
    const got = given.ownNode.dtype;
    if (got === dtype) return;
    throw new DTypeError(`${what}, got a tensor of ${got.name}. Convert with .cast(${dtype.name}).`);
  }
  const hint = ArrayBuffer.isView(given)
    ? ` Typed arrays are for simulate: pass allocate(${dtype.name}, values) or tensor(values) here.`
    : '';
  throw new DTypeError(
    `${what}: pass a tensor, or memory from allocate(${dtype.name}, …), got ${shown(given)}.${hint}`,
  );
}

const isHandle = (given: unknown): given is Handle =>
  typeof given === 'object' && given !== null && 'ownNode' in given;

/** What a kernel writes must be visible to every holder of the tensor. */
function requireWritable(ir: KernelIr, name: string, node: GraphNode): void {
  if (node.requiresGrad && node.src.length > 0 && node.op !== 'detach')
    throw new ArgumentError(
      `[${ir.name}] writes to ${name}, which requires a gradient: a launch takes no part in gradients, so backward() ` +
        'would not know of the new values. Write to a copy without a gradient: y.detach().realize().',
    );
  if (isView(node))
    throw new ArgumentError(
      `[${ir.name}] writes to ${name}, which is a view (${node.op}) of another tensor. The kernel would get a copy, and the ` +
        'other tensor would not change. Pass the whole tensor and an offset; or realize() the view first, if the copy is ' +
        'what you want.',
    );
}

const VIEWS: ReadonlySet<GraphOp> = new Set(['reshape', 'permute', 'expand', 'slice', 'detach']);

/** Whether a node that is not computed yet only shows the elements of another tensor. */
function isView({ storage, op, src }: GraphNode): boolean {
  const [of] = src;
  if (storage || !of || !VIEWS.has(op)) return false;
  return of.isLeaf || of.tensors > 0 || isView(of);
}

const writes = new WeakMap<KernelIr, ReadonlySet<Param>>();

/** Buffer parameters that a kernel stores to. */
export function writtenBy(ir: KernelIr): ReadonlySet<Param> {
  const known = writes.get(ir);
  if (known) return known;
  const written = new Set<Param>();
  for (const node of topological<Node>([ir.body])) {
    const stores =
      node.op === 'store' || node.op === 'intrinsic' || (node.op === 'effect' && node.arg === 'tmaStore');
    if (!stores) continue;
    const memory = node.src[0];
    if (memory?.op === 'buffer') written.add(memory.arg);
  }
  writes.set(ir, written);
  return written;
}
