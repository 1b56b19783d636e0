/**
 * Index arithmetic: integers of the form c + Σ fᵢ·aᵢ over atoms with known ranges, so that the quotients and
 * remainders of reshapes cancel where they can. All values are coordinates: not negative where they are used.
 */
import type { Expr } from '../../kernel/ir/ir.js';
import { alu, int } from '../../kernel/ir/ir.js';

/** Something that varies: a loop variable or block coordinate, or a quotient or remainder that did not cancel. */
export interface Atom {
  /** Values are 0 … size − 1. */
  readonly size: number;
  readonly of:
    | { readonly expr: Expr }
    | { readonly op: 'idiv' | 'mod'; readonly value: Affine; readonly by: number };
}

export interface Affine {
  readonly constant: number;
  readonly terms: readonly { readonly atom: Atom; readonly factor: number }[];
}

export const affine = (constant: number): Affine => ({ constant, terms: [] });
export const ZERO: Affine = affine(0);

/** A loop variable (or any expression) with values 0 … size − 1. */
export const atom = (expr: Expr, size: number): Atom => ({ size, of: { expr } });
export const ofAtom = (a: Atom): Affine =>
  a.size === 1 ? ZERO : { constant: 0, terms: [{ atom: a, factor: 1 }] };

export function plus(a: Affine, b: Affine): Affine {
  const terms = [...a.terms];
  for (const term of b.terms) {
    const at = terms.findIndex((t) => t.atom === term.atom);
    if (at < 0) terms.push(term);
    else {
      const factor = terms[at]!.factor + term.factor;
      if (factor === 0) terms.splice(at, 1);
      else terms[at] = { atom: term.atom, factor };
    }
  }
  return { constant: a.constant + b.constant, terms };
}

export const offset = (a: Affine, by: number): Affine => ({ constant: a.constant + by, terms: a.terms });

export const times = (a: Affine, factor: number): Affine =>
  factor === 0
    ? ZERO
    : {
        constant: a.constant * factor,
        terms: a.terms.map((t) => ({ atom: t.atom, factor: t.factor * factor })),
      };

/** Quotient and remainder by a positive constant. */
export function divide(a: Affine, by: number): { quotient: Affine; remainder: Affine } {
  if (by === 1) return { quotient: a, remainder: ZERO };
  const whole = a.terms.filter((t) => t.factor % by === 0);
  const rest = a.terms.filter((t) => t.factor % by !== 0);
  const low = ((a.constant % by) + by) % by;
  const least = rest.reduce((n, t) => n + Math.min(0, t.factor * (t.atom.size - 1)), low);
  const most = rest.reduce((n, t) => n + Math.max(0, t.factor * (t.atom.size - 1)), low);
  const quotient = {
    constant: (a.constant - low) / by,
    terms: whole.map((t) => ({ atom: t.atom, factor: t.factor / by })),
  };
  const remainder = { constant: low, terms: rest };
  if (least >= 0 && most < by) return { quotient, remainder };
  // The multiples of `by` leave the remainder as it is; what is left does not cancel.
  if (least >= 0) {
    const q: Atom = { size: Math.floor(most / by) + 1, of: { op: 'idiv', value: remainder, by } };
    const r: Atom = { size: by, of: { op: 'mod', value: remainder, by } };
    return { quotient: plus(quotient, ofAtom(q)), remainder: ofAtom(r) };
  }
  const upper = a.terms.reduce((n, t) => n + Math.max(0, t.factor * (t.atom.size - 1)), a.constant);
  return {
    quotient: ofAtom({ size: Math.floor(upper / by) + 1, of: { op: 'idiv', value: a, by } }),
    remainder: ofAtom({ size: by, of: { op: 'mod', value: a, by } }),
  };
}

/** How `a` changes when `v` grows by one; undefined if that is not the same everywhere. */
export function slope(a: Affine, v: Atom): number | undefined {
  let factor = 0;
  for (const term of a.terms) {
    if (term.atom === v) factor += term.factor;
    else if (dependsOn(term.atom, v)) return undefined;
  }
  return factor;
}

/** Whether `a` is a multiple of `by` where `v` is. */
export const isMultiple = (a: Affine, v: Atom, by: number): boolean =>
  a.constant % by === 0 && a.terms.every((t) => t.atom === v || t.factor % by === 0);

const dependsOn = (a: Atom, v: Atom): boolean =>
  a === v || ('value' in a.of && a.of.value.terms.some((t) => dependsOn(t.atom, v)));

/** `a` with `v + by` in place of `v`. */
export function shifted(a: Affine, v: Atom, by: number): Affine {
  if (by === 0) return a;
  let constant = a.constant;
  const terms = a.terms.map((t) => {
    if (t.atom === v) constant += t.factor * by;
    const { of } = t.atom;
    if (!('value' in of) || !dependsOn(t.atom, v)) return t;
    return { factor: t.factor, atom: { size: t.atom.size, of: { ...of, value: shifted(of.value, v, by) } } };
  });
  return { constant, terms };
}

const atomExpr = (a: Atom): Expr =>
  'expr' in a.of ? a.of.expr : alu(a.of.op, [toExpr(a.of.value), int(a.of.by)]);

/** The i32 expression. */
export function toExpr(a: Affine): Expr {
  let sum: Expr | undefined;
  for (const { atom: at, factor } of a.terms) {
    const base = atomExpr(at);
    const term = factor === 1 ? base : alu('mul', [base, int(factor)]);
    sum = sum ? alu('add', [sum, term]) : term;
  }
  if (!sum) return int(a.constant);
  return a.constant === 0 ? sum : alu('add', [sum, int(a.constant)]);
}
