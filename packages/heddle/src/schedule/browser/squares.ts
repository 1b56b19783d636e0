/** Stands in for schedule/lower/squares.ts in a browser, where threads take elements of the output one after the other. */
export const squaresBody = (): undefined => undefined;
