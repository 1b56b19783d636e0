/** What HEDDLE_CHECK does with kernels. Browsers do without: see kernel/passes/browser/checks.ts. */
export { verify } from '../../ir/verify.js';
