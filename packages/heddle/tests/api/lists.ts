/** Lists and records of modules and parameters: what they take. */
import { nn, ones } from '../../src/index.js';
import { isList, isPlain, layer, list, number, type Spec, spec, text } from './spec.js';

interface ListRow {
  /** What the constructor takes. */
  readonly takes: readonly Spec[];
  /** One to call methods on. */
  readonly make: () => nn.Module;
  readonly methods: Readonly<Record<string, readonly Spec[]>>;
}

const weight = () => ones([1], { requiresGrad: true });
const ordered = { at: [number(0)], forward: [] };
const named = { get: [text('a')], has: [text('a')], forward: [] };
const record = (make: () => unknown): Spec =>
  spec(
    () => ({ a: make() }),
    (v) => isPlain(v) && Object.keys(v as object).length === 0,
  );
const array = (make: () => unknown): Spec => ({
  ...list(() => [make()]),
  takes: (v) => isList(v) && (v as unknown[]).length === 0,
});

export const LISTS: Readonly<Record<string, ListRow>> = {
  ModuleList: { takes: [array(layer)], make: () => new nn.ModuleList([layer()]), methods: ordered },
  ModuleDict: { takes: [record(layer)], make: () => new nn.ModuleDict({ a: layer() }), methods: named },
  ParameterList: { takes: [array(weight)], make: () => new nn.ParameterList([weight()]), methods: ordered },
  ParameterDict: {
    takes: [record(weight)],
    make: () => new nn.ParameterDict({ a: weight() }),
    methods: named,
  },
};
