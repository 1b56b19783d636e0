/** Names of models and versions: what a request may name, and what a folder may be called to be served. */

/** Neither separators nor a dot at the beginning: no name leads out of the repository's folder. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
/** A positive integer, as the protocol's servers number versions. */
const VERSION = /^[1-9][0-9]{0,17}$/;

export const isModelName = (name: string): boolean => NAME.test(name);
export const isVersion = (name: string): boolean => VERSION.test(name);

/** The higher version first. */
export const byVersion = (a: string, b: string): number => {
  const difference = BigInt(b) - BigInt(a);
  return difference > 0n ? 1 : difference < 0n ? -1 : 0;
};
