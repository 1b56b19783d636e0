/** Exchanges with other processes. A browser has none: see schedule/browser/exchanges.ts. */
export { awaitedExchanges, besideExchanges, firstExchange, isExchange } from '../passes/exchanges.js';
