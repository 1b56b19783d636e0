/** What HEDDLE_CHECK and HEDDLE_DEBUG=3 do with plans. Browsers do without: see schedule/browser/checks.ts. */
export { verifyPlan } from '../passes/verify.js';
export { printPlan } from '../print.js';
