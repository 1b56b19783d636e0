/** What ops on rows by an index are, besides their tensors. */
export interface IndexArg {
  readonly axis: number;
  /** Of the tensor that is picked from, along `axis`. */
  readonly size: number;
}
