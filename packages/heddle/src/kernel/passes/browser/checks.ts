/** Stands in for what HEDDLE_CHECK does with kernels, which would be most of a hundredth of a browser's file. */
export const verify = (): void => {};
