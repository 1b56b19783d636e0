/** Whole functions as one program: traced once per shape of their inputs, then replayed. */
import {
  aFunction,
  aList,
  integerFrom,
  isPlainObject,
  isThenable,
  oneOf,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { during } from '../core/phases.js';
import { sameShape } from '../core/shape.js';
import { Recording } from '../engine/capture.js';
import { PROFILE, type Profile, type ProfileOptions } from '../engine/profile.js';
import { realize } from '../engine/realize.js';
import { currentDevice } from '../engine/storage.js';
import { Trace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode, TensorType } from '../graph/node.js';
import type { Device } from '../runtime/device.js';
import { labelOf } from './names.js';
import { areAsRead, type Readings, settingChanges, withReadings } from './setting.js';
import { type AnyTensor, Tensor } from './tensor.js';

/** The values that a jitted function may take and return: tensors and plain values, in arrays and records. */
export type JitValue =
  | AnyTensor
  | number
  | bigint
  | string
  | boolean
  | null
  | undefined
  | readonly JitValue[]
  | { readonly [key: string]: JitValue };

/** Makes an async function a type error. Other arguments and results are checked when the function is called. */
export type NotAsync<R> = R extends PromiseLike<unknown> ? never : unknown;

/** A function that runs as one program for each shape of its arguments. */
export interface Jitted<A extends readonly unknown[], R> {
  (...args: A): R;
  /** Kernel launches of the program that was run last; 0 before the first run. */
  readonly launches: number;
  /**
   * Time the program for these arguments on the device, as a whole and launch by launch. It is run many times for
   * that, and state that it assigns changes as it would by as many calls.
   */
  profile(args: A, options?: ProfileOptions): Promise<Profile>;
  /**
   * Call the function `times` times with the current values of these arguments, each call continuing from the state
   * that the one before left. Returns the result of the last call. On a GPU many calls are one launch, with no work on
   * the host between them.
   */
  repeat(times: number, ...args: A): R;
  /**
   * Trace and compile for these arguments, without a run: the first call is then as fast as the others.
   * @returns true if everything is compiled; false if kernels are still compiling in the background, in which case the
   *   first call waits for them
   */
  prepare(...args: A): boolean;
  /** Forget all programs and free their memory. */
  dispose(): void;
}

/** Options of `jit`. */
export interface JitOptions {
  /**
   * How kernels are chosen on a GPU where there are several variants: 'on' times those that are not in the cache, unless they
   * take next to nothing of the program; 'frozen' takes the first guess for them, which is enough for a function that seldom
   * runs. HEDDLE_TUNE overrides it. Default: 'on'.
   */
  readonly tune?: 'on' | 'frozen';
}

const JIT: Rules<JitOptions> = { tune: oneOf('on', 'frozen') };

/** Programs kept per function; one more input shape drops the oldest. */
const KEPT = 16;

/**
 * Compile `fn` into one program for each combination of shapes and dtypes. The first call traces it: tensors in its
 * arguments become inputs; tensors it uses from outside (parameters, optimizer state) are looked up again at every run, and
 * those it assigns are updated in place. Everything else in `fn` happens once, during the trace: plain arguments and the
 * modes of layers (`train()`, `eval()`) are constants of the program (other values make another program), and values cannot be
 * awaited inside. Gradients last until
 * the function returns: those that no optimizer has used by then are not computed.
 * @example
 * ```ts
 * import { jit, ones, type Tensor } from 'heddle';
 *
 * const step = jit((x: Tensor, w: Tensor) => x.matmul(w).relu().sum());
 * console.log(await step(ones([4, 3]), ones([3, 2])).item()); // → 24
 * await step(ones([4, 3]), ones([3, 2])).item(); // runs the program of the first call
 * ```
 * @throws ArgumentError for an argument that `fn` assigns, directly or as a tensor from outside
 */
export function jit<A extends readonly unknown[], R>(
  fn: (...args: A) => R & NotAsync<R>,
  options: JitOptions = {},
): Jitted<A, R> {
  requireArgument('jit', 'fn', fn, aFunction, 'Write jit((x) => …).');
  requireOptions('jit', options, JIT);
  const { tune = 'on' } = options;
  const programs: Traced[] = [];
  let launches = 0;
  /** What the last call was given, if only tensors: a training loop is spared the text that tells programs apart. */
  let last:
    | {
        readonly device: Device;
        readonly types: readonly TensorType[];
        readonly program: Traced;
        readonly changes: number;
      }
    | undefined;

  const prepare = (args: A) => {
    const device = currentDevice();
    const given: readonly unknown[] = args;
    if (last?.device === device && last.changes === settingChanges() && ofTypes(given, last.types)) {
      last.program.recording.requireApart(given);
      return { program: last.program, inputs: given.map((t) => t.ownNode) };
    }
    const inputs: AnyTensor[] = [];
    const key = `${device.name}${args.map((a, i) => signatureText(a, `argument ${i}`, inputs)).join(';')}`;
    let program = programs.find((known) => known.key === key && areAsRead(known.readings));
    if (!program) {
      program = record(key, fn, args, tune === 'on');
      if (programs.length >= KEPT) programs.shift()!.recording.dispose();
      programs.push(program);
    }
    program.recording.requireApart(inputs);
    const nodes = inputs.map((t) => t.ownNode);
    last = args.every((a) => a instanceof Tensor)
      ? { device, types: nodes.map((n) => n.type), program, changes: settingChanges() }
      : undefined;
    return { program, inputs: nodes };
  };
  const run = (times: number, args: A): R => {
    const { program, inputs } = prepare(args);
    const results = program.recording.run(inputs, times).map((node) => new Tensor(node));
    launches = program.recording.launches;
    let next = 0;
    return substitute(program.output, () => results[next++]!) as R;
  };
  const repeat = (times: number, ...args: A): R => {
    requireArgument('repeat', 'times', times, integerFrom(1));
    return run(times, args);
  };
  const call = (...args: A): R => run(1, args);
  return Object.defineProperties(call, {
    launches: { get: () => launches },
    repeat: { value: repeat },
    prepare: { value: (...args: A): boolean => prepare(args).program.recording.ready },
    profile: {
      value: (args: A, options: ProfileOptions = {}): Promise<Profile> => {
        requireArgument('profile', 'args', args, aList, 'Write step.profile([x, y]).');
        requireOptions('profile', options, PROFILE);
        const { program, inputs } = prepare(args);
        launches = program.recording.launches;
        return program.recording.profile(inputs, options);
      },
    },
    dispose: {
      value: () => {
        for (const { recording } of programs) recording.dispose();
        programs.length = 0;
        last = undefined;
      },
    },
  }) as Jitted<A, R>;
}

/** A function as it was traced for some arguments. */
interface Traced {
  /** The device, and the types and plain values of the arguments. */
  readonly key: string;
  /** The settings of layers that the function has read. */
  readonly readings: Readings;
  readonly recording: Recording;
  readonly output: JitValue;
}

function ofTypes(args: readonly unknown[], types: readonly TensorType[]): args is readonly AnyTensor[] {
  return (
    args.length === types.length &&
    types.every(({ dtype, shape }, i) => {
      const a = args[i];
      return a instanceof Tensor && a.dtype === dtype && sameShape(a.shape, shape);
    })
  );
}

function record<A extends readonly unknown[], R>(
  key: string,
  fn: (...args: A) => R,
  args: A,
  measure: boolean,
): Traced {
  const { made, readings } = withReadings(() => traced(fn, args, measure));
  return { key, readings, ...made };
}

function traced<A extends readonly unknown[], R>(
  fn: (...args: A) => R,
  args: A,
  measure: boolean,
): Pick<Traced, 'recording' | 'output'> {
  const trace = new Trace((node) => realize([node]));
  const nodes: GraphNode[] = [];
  let output: JitValue;
  try {
    const body = (): void => {
      const inside = substitute(args as readonly JitValue[], (t) => {
        const stand = new Tensor(b.leaf(t.shape, t.dtype, false));
        trace.inputs.push(stand);
        return stand;
      });
      output = fn(...(inside as unknown as A)) as JitValue;
      if (isThenable(output)) {
        // What it awaits is refused too; this error says why, so that one is not to end the process.
        output.then(undefined, () => {});
        throw new ArgumentError(
          '[jit] the function must not be async: values cannot be awaited while it is traced. Return the tensor and await it outside.',
        );
      }
      signatureText(output, 'the result', []);
      output = substitute(output, (t) => {
        nodes.push(t.node);
        return t;
      });
    };
    during('trace', () => trace.run(body));
  } catch (error) {
    forgetGradients(trace);
    throw error;
  }
  const unused = forgetGradients(trace);
  if (unused.length > 0 && !trace.usedGradients)
    throw new ArgumentError(
      `[jit] backward() gave gradients to ${unused.length} parameter${unused.length === 1 ? '' : 's'} that no optimizer.step() in this function used: ` +
        `${listed(unused.map(labelOf))}. Step an optimizer that has them, keep them with optim.GradientAccumulator, or forget them with model.zeroGrad().`,
    );
  return { recording: new Recording(trace, nodes, measure), output };
}

/** Some names, and how many more. */
const listed = (names: readonly string[]): string =>
  names.length <= 6 ? names.join(', ') : `${names.slice(0, 5).join(', ')} and ${names.length - 5} more`;

/** Take gradients away that exist only in the trace. @returns the tensors that had them */
function forgetGradients(trace: Trace): AnyTensor[] {
  const had: AnyTensor[] = [];
  for (const [handle] of trace.captured) {
    if (!(handle instanceof Tensor) || !handle.grad) continue;
    const { ownNode } = handle.grad;
    if (ownNode.storage || !trace.made(ownNode)) continue;
    handle.grad = undefined;
    had.push(handle);
  }
  return had;
}

/**
 * A text that tells programs apart, and the tensors found on the way.
 * @throws ArgumentError for what is neither a tensor, nor a plain value, nor made of these
 */
function signatureText(
  value: unknown,
  where: string,
  tensors: AnyTensor[],
  inside: readonly object[] = [],
): string {
  if (value instanceof Tensor) {
    tensors.push(value);
    return `T${value.dtype.name}(${value.shape.join(',')})`;
  }
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol')
    return String(value);
  if (value === null) return 'null';
  if (typeof value !== 'object' || !(Array.isArray(value) || isPlainObject(value)) || inside.includes(value))
    throw new ArgumentError(
      `[jit] ${where} is ${typeof value === 'object' && inside.includes(value) ? 'a part of itself' : shown(value)}: ` +
        'jitted functions take and return tensors, numbers, strings, booleans, and arrays and plain objects of these. ' +
        'Use anything else from outside the function.',
    );
  const within = [...inside, value];
  if (Array.isArray(value))
    return `[${value.map((v, i) => signatureText(v, `${where}[${i}]`, tensors, within)).join(';')}]`;
  const entries = Object.entries(value);
  return `{${entries.map(([k, v]) => `${k}:${signatureText(v, `${where}.${k}`, tensors, within)}`).join(';')}}`;
}

/** The same structure with other tensors. */
function substitute(value: JitValue, by: (t: AnyTensor) => AnyTensor): JitValue {
  if (value instanceof Tensor) return by(value);
  if (Array.isArray(value)) return value.map((v: JitValue) => substitute(v, by));
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, substitute(v as JitValue, by)]));
  }
  return value;
}
