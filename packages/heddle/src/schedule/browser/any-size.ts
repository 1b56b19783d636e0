/** Stands in for schedule/lower/any-size.ts in a browser, where no launches are joined by lists of arguments. */
export const anySizeBody = (): undefined => undefined;
