/** Stands in for schedule/passes/exchanges.ts in a browser, which has no other processes to exchange values with. */
import type { Target } from '../../kernel/ir/target.js';

export const isExchange = (): boolean => false;
export const firstExchange = () => (): number => 0;
export const awaitedExchanges = (): ReadonlyMap<unknown, number> => new Map();
export const besideExchanges = (_roots: unknown, target: Target) => (): Target => target;
