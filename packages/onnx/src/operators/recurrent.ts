/**
 * Recurrent networks, written out step by step: both directions, sequences of different lengths, peepholes and other
 * activations. Gates are in the order of ONNX: i, o, f, c of an LSTM; z, r, h of a GRU.
 */
import { type AnyTensor, stack, type Tensor, zeros } from 'heddle';
import { listOf, requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, floats, int, text, texts } from './attributes.js';
import { type Call, operator } from './operator.js';

type Activation = (x: AnyTensor) => AnyTensor;

const softplus: Activation = (x) => x.maximum(0).add(x.abs().neg().exp().log1p());

/** Activations by their names in lower case, with their two numbers. */
const ACTIVATIONS: Readonly<
  Record<string, (alpha: number | undefined, beta: number | undefined) => Activation>
> = {
  sigmoid: () => (x) => x.sigmoid(),
  tanh: () => (x) => x.tanh(),
  relu: () => (x) => x.relu(),
  softplus: () => softplus,
  softsign: () => (x) => x.div(x.abs().add(1)),
  affine:
    (a = 1, b = 0) =>
    (x) =>
      x.mul(a).add(b),
  leakyrelu:
    (a = 0.01) =>
    (x) =>
      x.lt(0).where(x.mul(a), x),
  elu:
    (a = 1) =>
    (x) =>
      x.lt(0).where(x.minimum(0).expm1().mul(a), x),
  hardsigmoid:
    (a = 0.2, b = 0.5) =>
    (x) =>
      x.mul(a).add(b).clamp(0, 1),
  scaledtanh:
    (a = 1, b = 1) =>
    (x) =>
      x.mul(b).tanh().mul(a),
  thresholdedrelu:
    (a = 1) =>
    (x) =>
      x.gt(a).where(x, x.mul(0)),
};

const RECURRENT = {
  activation_alpha: floats([]),
  activation_beta: floats([]),
  activations: texts(undefined),
  clip: float(undefined),
  direction: text('forward'),
  hidden_size: int(undefined),
  layout: int(0, { from: 14 }),
};

/** What one direction has of the inputs. */
interface Direction {
  /** (gates·H, I) */
  readonly w: Tensor;
  /** (gates·H, H) */
  readonly r: Tensor;
  /** (gates·H) each: of the input and of the state. */
  readonly biases: readonly [AnyTensor, AnyTensor];
  readonly activations: readonly Activation[];
  /** (gates·H): the weights that look at the cell's state, i, o, f. */
  readonly peepholes: AnyTensor | undefined;
}

/** One step: the states (N, H) before it, and what the input adds to the gates (N, gates·H). */
type Cell = (
  gates: AnyTensor,
  states: readonly AnyTensor[],
  d: Direction,
  clip: Activation,
) => readonly AnyTensor[];

/** Parts of gates, `size` wide. */
const partsOf = (x: AnyTensor, size: number): AnyTensor[] =>
  listOf(x.shape.at(-1)! / size, (_, i) => x.at('...', `${i * size}:${(i + 1) * size}`));

const product = (h: AnyTensor, r: AnyTensor): AnyTensor => (h as Tensor).matmul(r.transpose() as Tensor);

const rnn: Cell = (x, [h], { r, biases, activations: [f] }, clip) => [
  f!(clip(x.add(product(h!, r)).add(biases[1]))),
];

const gru =
  (linearBeforeReset: boolean): Cell =>
  (x, [h], { r, biases, activations: [f, g] }, clip) => {
    const size = h!.shape[1]!;
    const [xz, xr, xh] = partsOf(x, size) as [AnyTensor, AnyTensor, AnyTensor];
    const [rz, rr, rh] = [0, 1, 2].map((i) => r.at(`${i * size}:${(i + 1) * size}`)) as [
      AnyTensor,
      AnyTensor,
      AnyTensor,
    ];
    const [bz, br, bh] = partsOf(biases[1], size) as [AnyTensor, AnyTensor, AnyTensor];
    const z = f!(clip(xz.add(product(h!, rz)).add(bz)));
    const reset = f!(clip(xr.add(product(h!, rr)).add(br)));
    const inner = linearBeforeReset ? reset.mul(product(h!, rh).add(bh)) : product(reset.mul(h!), rh).add(bh);
    const candidate = g!(clip(xh.add(inner)));
    return [candidate.add(z.mul(h!.sub(candidate)))];
  };

const lstm =
  (couplesGates: boolean): Cell =>
  (x, [h, c], { r, biases, activations: [f, g, out], peepholes }, clip) => {
    const size = h!.shape[1]!;
    const [xi, xo, xf, xc] = partsOf(x.add(product(h!, r)).add(biases[1]), size) as [
      AnyTensor,
      AnyTensor,
      AnyTensor,
      AnyTensor,
    ];
    const [pi, po, pf] = peepholes ? partsOf(peepholes, size) : [];
    const seen = (gate: AnyTensor, p: AnyTensor | undefined, state: AnyTensor): AnyTensor =>
      f!(clip(p ? gate.add(p.mul(state)) : gate));
    const i = seen(xi, pi, c!);
    const forget = couplesGates ? i.neg().add(1) : seen(xf, pf, c!);
    const cell = forget.mul(c!).add(i.mul(g!(clip(xc))));
    const o = seen(xo, po, cell);
    return [o.mul(out!(cell)), cell];
  };

/** All steps of one direction. @param x (T, N, I) @returns the states h of all steps (T, N, H), and the last ones */
function layer(
  x: Tensor,
  first: readonly AnyTensor[],
  d: Direction,
  cell: Cell,
  clip: Activation,
  lengths: Tensor | undefined,
  reversed: boolean,
) {
  const steps = x.shape[0]!;
  const inputs = x.matmul(d.w.transpose() as Tensor).add(d.biases[0]);
  let states = first;
  const made = new Array<AnyTensor>(steps);
  for (let i = 0; i < steps; i++) {
    const t = reversed ? steps - 1 - i : i;
    const next = cell(inputs.at(t), states, d, clip);
    if (!lengths) {
      states = next;
      made[t] = next[0]!;
      continue;
    }
    // Beyond the end of a sequence its states stay, and its output is 0.
    const within = lengths.gt(t).unsqueeze(-1);
    const before = states;
    states = next.map((s, k) => within.where(s, before[k]!) as AnyTensor);
    made[t] = within.where(next[0]!, next[0]!.mul(0)) as AnyTensor;
  }
  return { output: stack(made) as AnyTensor, last: states };
}

/** The outputs of a node: of all steps, and the last states. */
function recurrent(
  call: Call<typeof RECURRENT>,
  gates: number,
  states: number,
  defaults: readonly string[],
  cell: Cell,
): Value[] {
  const a = call.attributes;
  const batchFirst = a.layout === 1;
  const given = call.tensor(0) as Tensor;
  const x = (batchFirst ? given.transpose(0, 1) : given) as Tensor;
  const [w, r] = [call.tensor(1), call.tensor(2)];
  const [directions, , hidden] = r.shape as [number, number, number];
  const names = a.direction === 'bidirectional' ? ['forward', 'reverse'] : [a.direction];
  if (
    names.length !== directions ||
    names.some((n) => n !== 'forward' && n !== 'reverse') ||
    r.shape[1] !== gates * hidden
  )
    throw call.shapeError(`weights are (${w.shape}) and (${r.shape}), for the direction '${a.direction}'.`);
  if (x.shape[0] === 0) throw call.shapeError('there are no steps.');
  requireParts(x.shape[0]!, 'steps');
  const batch = x.shape[1]!;
  const bias = call.optional(3)?.tensor ?? zeros([directions, 2 * gates * hidden], { dtype: x.dtype });
  const peepholes = states > 1 ? call.optional(7)?.tensor : undefined;
  const lengths = call.optional(4)?.tensor as Tensor | undefined;
  const clip: Activation = a.clip === undefined ? (v) => v : (v) => v.clamp(-a.clip!, a.clip);
  const chosen = a.activations ?? names.flatMap(() => defaults);
  const functions = chosen.map((name, i) => {
    const make = ACTIVATIONS[name.toLowerCase()];
    if (!make) throw call.shapeError(`the activation '${name}' is not known.`);
    return make(a.activation_alpha[i], a.activation_beta[i]);
  });
  if (functions.length !== names.length * defaults.length)
    throw call.shapeError(
      `${functions.length} activations are given, must be ${names.length * defaults.length}.`,
    );
  const made = names.map((name, k) => {
    const first = listOf(states, (_, s) => {
      const state = call.optional(5 + s)?.tensor;
      if (!state) return zeros([batch, hidden], { dtype: x.dtype }) as AnyTensor;
      return batchFirst ? state.at(':', k) : state.at(k);
    });
    const [bx, bh] = [bias.at(k, `0:${gates * hidden}`), bias.at(k, `${gates * hidden}:`)];
    const d: Direction = {
      ...{
        w: w.at(k) as Tensor,
        r: r.at(k) as Tensor,
        biases: [bx, bh] as const,
        peepholes: peepholes?.at(k),
      },
      activations: functions.slice(k * defaults.length, (k + 1) * defaults.length),
    };
    return layer(x, first, d, cell, clip, lengths, name === 'reverse');
  });
  // (T, D, N, H) and (D, N, H), or with the batch first.
  const all = stack(made.map(({ output }) => output) as Tensor[], 1) as AnyTensor;
  const last = Array.from(
    { length: states },
    (_, s) => stack(made.map((m) => m.last[s]!) as Tensor[]) as AnyTensor,
  );
  const ordered = batchFirst
    ? [all.permute([2, 0, 1, 3]), ...last.map((s) => s.transpose(0, 1))]
    : [all, ...last];
  return ordered.map((t) => Value.of(t));
}

const SINCE = [7, 14, 22];

const RNN = operator({
  since: SINCE,
  inputs: [3, 6],
  attributes: RECURRENT,
  compute: (call) => recurrent(call, 1, 1, ['Tanh'], rnn),
});

const GRU = operator({
  since: SINCE,
  inputs: [3, 6],
  attributes: { ...RECURRENT, linear_before_reset: int(0) },
  compute: (call) =>
    recurrent(call, 3, 1, ['Sigmoid', 'Tanh'], gru(call.attributes.linear_before_reset === 1)),
});

const LSTM = operator({
  since: SINCE,
  inputs: [3, 8],
  attributes: { ...RECURRENT, input_forget: int(0) },
  compute: (call) =>
    recurrent(call, 4, 2, ['Sigmoid', 'Tanh', 'Tanh'], lstm(call.attributes.input_forget === 1)),
});

export const RECURRENT_OPERATORS = { RNN, GRU, LSTM };
