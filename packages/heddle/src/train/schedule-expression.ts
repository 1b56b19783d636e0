/** Schedules as text, for recipes and commands: `cosine`, `chain(warmup(500), cosine({ final: 0.1 }))`. */
import { type Expression, type PrivateIdentifier, parseExpressionAt, type SpreadElement } from 'acorn';
import { unknownName } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { type LrSchedule, schedules } from '../optim/index.js';

/** Those that take no function. */
const { custom: _, ...NAMED } = schedules;

const isNamed = (name: string): name is keyof typeof NAMED => Object.hasOwn(NAMED, name);

/**
 * The schedule that an expression of `optim.schedules` gives. Nothing but these, numbers, texts, arrays and objects may be
 * in it; a name alone is the schedule with its defaults.
 * @throws ArgumentError naming what is wrong
 */
export function parseSchedule(text: string): LrSchedule {
  let expression: Expression;
  try {
    expression = parseExpressionAt(text, 0, { ecmaVersion: 2022 });
  } catch (error) {
    throw refused(text, `it cannot be parsed (${(error as Error).message})`);
  }
  if (text.slice(expression.end).trim() !== '')
    throw refused(text, `'${text.slice(expression.end).trim()}' follows its end`);
  const value = evaluated(text, expression);
  if (typeof value === 'object' && value !== null && 'factor' in value) return value as LrSchedule;
  throw refused(text, 'it gives no schedule');
}

const refused = (text: string, why: string): ArgumentError =>
  new ArgumentError(
    `[schedule] ${text} is not a schedule: ${why}. Write one such as cosine, or chain(warmup(500), cosine({ final: 0.1 })).`,
  );

type Part = Expression | PrivateIdentifier | SpreadElement | null;

function evaluated(text: string, node: Part): unknown {
  const of = (part: Part): unknown => evaluated(text, part);
  switch (node?.type) {
    case 'Literal':
      return node.value;
    case 'Identifier':
      return named(text, node.name)();
    case 'CallExpression':
      if (node.callee.type !== 'Identifier') break;
      return named(text, node.callee.name)(...node.arguments.map(of));
    case 'ArrayExpression':
      return node.elements.map(of);
    case 'ObjectExpression':
      return Object.fromEntries(
        node.properties.map((property) => {
          if (property.type !== 'Property' || property.computed || property.key.type !== 'Identifier')
            throw refused(text, `${text.slice(property.start, property.end)} is not a name with a value`);
          return [property.key.name, of(property.value)];
        }),
      );
    case 'UnaryExpression':
    case 'BinaryExpression': {
      const parts =
        node.type === 'UnaryExpression' ? [0, of(node.argument)] : [of(node.left), of(node.right)];
      const compute = ARITHMETIC[node.operator];
      if (!compute || !parts.every((part): part is number => typeof part === 'number')) break;
      return compute(parts[0]!, parts[1]!);
    }
  }
  throw refused(text, `${node ? text.slice(node.start, node.end) : 'nothing'} cannot be in it`);
}

const ARITHMETIC: Readonly<Partial<Record<string, (a: number, b: number) => number>>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
};

function named(text: string, name: string): (...args: unknown[]) => LrSchedule {
  if (isNamed(name)) return NAMED[name] as (...args: unknown[]) => LrSchedule;
  if (name === 'custom') throw refused(text, 'custom takes a function, which only a program can give');
  throw new ArgumentError(unknownName('schedule', 'schedule', name, Object.keys(NAMED)));
}
