/** The list of the scheduler's passes: each is named, and caught if it breaks what holds of a plan. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import { InternalError } from '../../src/core/errors.js';
import * as b from '../../src/graph/build.js';
import type { Variant } from '../../src/graph/fused-op.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { matmul } from '../../src/ops/matmul/op.js';
import type { Schedule } from '../../src/schedule/launch.js';
import { fingerprint } from '../../src/schedule/passes/canonical.js';
import type { Plan, PlanPass } from '../../src/schedule/plan.js';
import { printPlan } from '../../src/schedule/print.js';
import { PASSES, schedule } from '../../src/schedule/schedule.js';

const gpu = H200;

/** Two layers, a loss, and the update of each weight and of a counter, with every pass of a GPU. */
function planned(passes: readonly PlanPass[]): Schedule {
  const leaf = (...shape: number[]) => b.leaf(shape, f32, false);
  const [x, w, v, counter] = [leaf(8, 6), leaf(6, 5), leaf(5, 7), b.leaf([], i32, false)];
  const y = matmul(x, w);
  const z = matmul(y, v);
  const loss = b.reduce('sum', b.map('mul', z, z), [0, 1]);
  const next = [
    b.map('sub', w, matmul(b.permute(x, [1, 0]), y)),
    b.map('sub', v, matmul(b.permute(y, [1, 0]), z)),
    b.map('add', counter, b.like(counter, 1)),
  ];
  const roots = [loss, ...next];
  const { leaves } = fingerprint(roots);
  const updates = new Map([w, v, counter].map((old, i) => [i + 1, leaves.indexOf(old)]));
  return schedule(
    roots,
    gpu,
    { updates, constants: new Set([0]), tune: (requests) => requests.map(() => undefined) },
    passes,
  );
}

test('the list of passes, in order', () => {
  assert.deepEqual(
    PASSES.map((p) => p.name),
    [
      ...['canonicalize', 'partition', 'merge', 'join', 'sums', 'parts', 'chains', 'spread', 'open'],
      ...['tune', 'lower', 'constants', 'updates', 'levels', 'overwrites', 'place', 'lists'],
      ...['side by side', 'needs'],
    ],
  );
});

/** What each pass would make if it were wrong, and the rule that finds it. */
const wrong: Readonly<Record<string, readonly [(made: Partial<Plan>, plan: Plan) => Partial<Plan>, RegExp]>> =
  {
    canonicalize: [(made) => ({ ...made, choices: new Map() }), /a call has no kernel/],
    partition: [(made) => ({ ...made, groups: made.groups!.slice(1) }), /no group makes a node/],
    merge: [({ groups }) => ({ groups: [...groups!, ...groups!] }), /two groups make a node/],
    join: [(made) => ({ ...made, groups: made.groups!.slice(1) }), /no group makes a node/],
    sums: [(made) => ({ ...made, groups: made.groups!.slice(1) }), /no group makes a node/],
    parts: [(made) => ({ ...made, groups: made.groups!.slice(1) }), /no group makes a node/],
    chains: [(made) => ({ ...made, groups: made.groups!.slice(1) }), /no group makes a node/],
    spread: [(made) => ({ ...made, groups: made.groups!.slice(1) }), /no group makes a node/],
    open: [() => ({ calls: new Map() }), /a call is not open/],
    tune: [
      (_, { groups }) => ({ variants: new Map(groups.map((g) => [g, {} as Variant])) }),
      /a generated kernel has a variant/,
    ],
    lower: [
      ({ work }) => ({
        work: work!.map((w) => ({ ...w, stages: w.stages.map((s) => ({ ...s, slots: s.slots.slice(1) })) })),
      }),
      /arguments of .* do not fit its parameters/,
    ],
    constants: [
      ({ work }) => ({
        work: work!.map((w) => ({ ...w, stages: w.stages.map((s) => ({ ...s, slots: s.slots.slice(1) })) })),
      }),
      /arguments of .* do not fit its parameters/,
    ],
    updates: [
      ({ updated }) => ({
        updated: new Map([...updated!.keys()].map((node) => [node, [...updated!.values()][0]!])),
      }),
      /memory is written over twice/,
    ],
    levels: [
      ({ levels }) => ({ levels: new Map([...levels!].map(([w, own]) => [w, own.map((_, i) => i)])) }),
      /a launch reads what is not made yet/,
    ],
    overwrites: [
      (_, { work, leaves }) => ({ overwrites: new Map([[work[0]!.group.roots[0]!, leaves[0]!]]) }),
      /memory is written over by something else/,
    ],
    place: [
      (made) => ({ ...made, launches: made.launches!.map((l) => ({ ...l, level: 0 })) }),
      /on level 0 touches memory of .* beside it/,
    ],
    lists: [
      (made) => ({ ...made, launches: made.launches!.map((l) => ({ ...l, level: 0 })) }),
      /on level 0 touches memory of .* beside it/,
    ],
    'side by side': [
      ({ launches }) => ({
        launches: launches!.map((l) => ({
          ...l,
          touches: l.touches.map((t) => (t.memory === 'arena' ? { ...t, from: 0, to: t.to - t.from } : t)),
        })),
      }),
      /touches memory of|which holds something else|over what it uses/,
    ],
    needs: [({ needs }) => ({ needs: needs!.map(() => []) }), /does not wait for/],
  };

const before = process.env.HEDDLE_CHECK;
afterEach(() => {
  if (before === undefined) delete process.env.HEDDLE_CHECK;
  else process.env.HEDDLE_CHECK = before;
});

for (const pass of PASSES)
  test(`HEDDLE_CHECK=1 finds a wrong ${pass.name}, and names it`, () => {
    const [breaks, rule] = wrong[pass.name]!;
    const run: PlanPass['run'] = (plan, ...more) => breaks(pass.run(plan, ...more), plan);
    process.env.HEDDLE_CHECK = '1';
    assert.throws(
      () => planned(PASSES.map((p) => (p === pass ? { ...pass, run } : p))),
      (error) =>
        error instanceof InternalError &&
        error.message.includes(`after ${pass.name}`) &&
        rule.test(error.message),
    );
  });

test('memory of what lives at the same time does not overlap: a place that is taken too early is found', () => {
  process.env.HEDDLE_CHECK = '1';
  let found = 0;
  const { launches } = planned(PASSES);
  const offsets = new Set(launches.flatMap((l) => l.args.flatMap((a) => ('arena' in a ? [a.arena] : []))));
  for (const moved of offsets) {
    if (moved === 0) continue;
    const run: PlanPass['run'] = (...given) => {
      const made = PASSES.find((p) => p.name === 'place')!.run(...given);
      const touched = made.launches!.map((l) => ({
        ...l,
        touches: l.touches.map((t) =>
          t.memory === 'arena' && t.from === moved ? { ...t, from: 0, to: t.to - moved } : t,
        ),
      }));
      return { ...made, launches: touched };
    };
    assert.throws(
      () => planned(PASSES.map((p) => (p.name === 'place' ? { ...p, run } : p))),
      /after place: .*(touches memory of|which holds something else|over what it uses)/,
    );
    found++;
  }
  assert.ok(found > 0);
});

test('HEDDLE_DEBUG=3 has something to say of every pass', () => {
  const said: string[] = [];
  planned(
    PASSES.map((pass) => ({
      ...pass,
      run: (plan, ...more) => {
        const made = pass.run(plan, ...more);
        said.push(printPlan({ ...plan, ...made }, made));
        return made;
      },
    })),
  );
  assert.equal(said.length, PASSES.length);
  for (const text of said) assert.match(text, /^\d+ \w+/);
});

test('layers that are alike are launches of the same kernels', () => {
  const leaf = (...shape: number[]) => b.leaf(shape, f32, false);
  let x = leaf(64, 256);
  // More than a block for each row of x would read.
  const weights = [1, 2, 3].map(() => leaf(256, 256));
  // Each has a row kernel and a product with an epilogue; only the last epilogue differs.
  for (const w of weights) {
    const centred = b.sub(x, b.expand(b.reduce('max', x, [1]), [64, 256]));
    x = b.map('max', b.add(matmul(centred, w), x), b.like(x, 0));
  }
  const { launches } = schedule([b.mul(x, x)], H200, {});
  const kernels = launches.map(({ work }) => ('kernel' in work ? work.kernel : undefined));
  assert.equal(kernels.length, 6);
  assert.deepEqual(
    kernels.map((kernel) => kernels.indexOf(kernel)),
    [0, 1, 0, 1, 0, 5],
  );
  const arguments_ = launches.map(({ args }) => JSON.stringify(args));
  assert.equal(new Set(arguments_).size, launches.length);
});
