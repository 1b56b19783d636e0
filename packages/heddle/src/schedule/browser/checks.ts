/** Stands in for what HEDDLE_CHECK and HEDDLE_DEBUG=3 do with plans, which would be a hundredth of a browser's file. */
export const verifyPlan = (): void => {};

export const printPlan = (): string => 'Plans are shown in Node.js only.';
