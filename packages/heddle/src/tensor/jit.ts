/** Whole functions as one program: traced once per shape of their inputs, then replayed. */
import { ArgumentError } from '../core/errors.js';
import { sameShape } from '../core/shape.js';
import { Recording } from '../engine/capture.js';
import type { Profile, ProfileOptions } from '../engine/profile.js';
import { realize } from '../engine/realize.js';
import { currentDevice } from '../engine/storage.js';
import { Trace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode, TensorType } from '../graph/node.js';
import type { Device } from '../runtime/device.js';
import { Tensor } from './tensor.js';

/** What a jitted function may take and return: tensors, in arrays and records, among plain values. */
export type JitValue =
  | Tensor
  | number
  | string
  | boolean
  | null
  | undefined
  | readonly JitValue[]
  | { readonly [key: string]: JitValue };

/** A function that only updates its state returns nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: what such a function returns has type void
export type JitResult = JitValue | void;

export interface Jitted<A extends readonly JitValue[], R> {
  (...args: A): R;
  /** Kernel launches of the program last run; 0 before the first. */
  readonly launches: number;
  /**
   * How long the program for these arguments takes on the device, as a whole and launch by launch. It runs many
   * times for that: state that it assigns moves on as by as many calls.
   */
  profile(args: A, options?: ProfileOptions): Promise<Profile>;
  /**
   * Call it `times` times with the values that these arguments have now, each call on the state that the one before
   * left; returns what the last one does. On a GPU many calls are one launch, with no work on the host between them.
   */
  repeat(times: number, ...args: A): R;
  /**
   * Trace and compile for these arguments, without a run: the first call is then as fast as the others.
   * @returns whether that is so; else kernels are still being compiled beside, and the first call waits for them
   */
  prepare(...args: A): boolean;
  /** Forget all programs and give their memory back. */
  dispose(): void;
}

export interface JitOptions {
  /**
   * How kernels are chosen on a GPU where there are several ways: 'on' times those that are not remembered;
   * 'frozen' takes the first guess for them, as is enough for what seldom runs. HEDDLE_TUNE goes before. Default: 'on'.
   */
  readonly tune?: 'on' | 'frozen';
}

/** Programs kept per function; one more input shape drops the oldest. */
const KEPT = 16;

/**
 * `fn` as one compiled program per shapes of its inputs. The first call traces it: tensors in its arguments become
 * inputs; tensors it uses from outside (parameters, optimizer state) are looked up again at every run, and those it
 * assigns are updated in place. Everything else in `fn` happens once, at the trace: plain arguments are constants of
 * the program (other values make another one), and values cannot be awaited inside.
 * @throws ArgumentError for an argument that `fn` assigns, directly or as a tensor from outside
 */
export function jit<A extends readonly JitValue[], R extends JitResult>(
  fn: (...args: A) => R,
  { tune = 'on' }: JitOptions = {},
): Jitted<A, R> {
  const programs = new Map<string, Traced>();
  let launches = 0;
  /** What the last call was given, if only tensors: a training loop is spared the text that tells programs apart. */
  let last:
    | { readonly device: Device; readonly types: readonly TensorType[]; readonly program: Traced }
    | undefined;

  const prepare = (args: A) => {
    const device = currentDevice();
    const given: readonly JitValue[] = args;
    if (last?.device === device && ofTypes(given, last.types)) {
      last.program.recording.requireApart(given);
      return { program: last.program, inputs: given.map((t) => t.ownNode) };
    }
    const inputs: Tensor[] = [];
    const key = `${device.name}${describe(args, inputs)}`;
    let program = programs.get(key);
    if (!program) {
      program = record(fn, args, tune === 'on');
      if (programs.size >= KEPT) {
        const [oldest] = programs.keys();
        programs.get(oldest!)!.recording.dispose();
        programs.delete(oldest!);
      }
      programs.set(key, program);
    }
    program.recording.requireApart(inputs);
    const nodes = inputs.map((t) => t.ownNode);
    last = args.every((a) => a instanceof Tensor)
      ? { device, types: nodes.map((n) => n.type), program }
      : undefined;
    return { program, inputs: nodes };
  };
  const repeat = (times: number, ...args: A): R => {
    if (!Number.isInteger(times) || times < 1)
      throw new ArgumentError(`[jit] repeat ${times} times: must be a whole number ≥ 1.`);
    const { program, inputs } = prepare(args);
    const results = program.recording.run(inputs, times).map((node) => new Tensor(node));
    launches = program.recording.launches;
    let next = 0;
    return substitute(program.output, () => results[next++]!) as R;
  };
  const call = (...args: A): R => repeat(1, ...args);
  return Object.defineProperties(call, {
    launches: { get: () => launches },
    repeat: { value: repeat },
    prepare: { value: (...args: A): boolean => prepare(args).program.recording.ready },
    profile: {
      value: (args: A, options: ProfileOptions = {}): Promise<Profile> => {
        const { program, inputs } = prepare(args);
        launches = program.recording.launches;
        return program.recording.profile(inputs, options);
      },
    },
    dispose: {
      value: () => {
        for (const { recording } of programs.values()) recording.dispose();
        programs.clear();
        last = undefined;
      },
    },
  }) as Jitted<A, R>;
}

/** A function as it was traced for some arguments. */
interface Traced {
  readonly recording: Recording;
  readonly output: JitValue;
}

function ofTypes(args: readonly JitValue[], types: readonly TensorType[]): args is readonly Tensor[] {
  return (
    args.length === types.length &&
    types.every(({ dtype, shape }, i) => {
      const a = args[i];
      return a instanceof Tensor && a.dtype === dtype && sameShape(a.shape, shape);
    })
  );
}

function record<A extends readonly JitValue[], R extends JitResult>(
  fn: (...args: A) => R,
  args: A,
  measure: boolean,
): Traced {
  const trace = new Trace((node) => realize([node]));
  const nodes: GraphNode[] = [];
  let output: JitValue;
  try {
    trace.run(() => {
      const inside = substitute(args, (t) => {
        const stand = new Tensor(b.leaf(t.shape, t.dtype, false));
        trace.inputs.push(stand);
        return stand;
      });
      output = fn(...(inside as unknown as A)) as JitValue;
      if (output instanceof Promise) {
        // What it awaits is refused too; this error says why, so that one is not to end the process.
        output.catch(() => {});
        throw new ArgumentError(
          '[jit] the function must not be async: values cannot be awaited while it is traced. Return the tensor and await it outside.',
        );
      }
      output = substitute(output, (t) => {
        nodes.push(t.node);
        return t;
      });
    });
  } catch (error) {
    forgetGradients(trace);
    throw error;
  }
  if (forgetGradients(trace))
    throw new ArgumentError(
      '[jit] backward() left gradients that nothing used. Call optimizer.step() in the same jitted function.',
    );
  return { recording: new Recording(trace, nodes, measure), output };
}

/** Take gradients away that exist only in the trace. @returns whether there were any */
function forgetGradients(trace: Trace): boolean {
  let any = false;
  for (const [handle] of trace.captured) {
    if (!(handle instanceof Tensor) || !handle.grad) continue;
    const { ownNode } = handle.grad;
    if (ownNode.storage || !trace.made(ownNode)) continue;
    handle.grad = undefined;
    any = true;
  }
  return any;
}

/** A text that tells programs apart, and the tensors found on the way. */
function describe(value: JitValue, tensors: Tensor[]): string {
  if (value instanceof Tensor) {
    tensors.push(value);
    return `T${value.dtype.name}(${value.shape.join(',')})`;
  }
  if (Array.isArray(value)) return `[${value.map((v: JitValue) => describe(v, tensors)).join(';')}]`;
  if (value !== null && typeof value === 'object') {
    return `{${Object.entries(value)
      .map(([k, v]) => `${k}:${describe(v as JitValue, tensors)}`)
      .join(';')}}`;
  }
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}

/** The same structure with other tensors. */
function substitute(value: JitValue, by: (t: Tensor) => Tensor): JitValue {
  if (value instanceof Tensor) return by(value);
  if (Array.isArray(value)) return value.map((v: JitValue) => substitute(v, by));
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, substitute(v as JitValue, by)]));
  }
  return value;
}
