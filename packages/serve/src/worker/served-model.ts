/** What a worker serves: the one interface behind which runs, ONNX files and engines look the same. */
import type { TypedArray } from 'heddle/internal/core/dtype.js';
import type { ModelSpec } from '../protocol/model-spec.js';

/** Elements and shape of a tensor on the host. */
export interface HostTensor {
  readonly shape: readonly number[];
  readonly values: TypedArray;
}

/** Where a model finds the evidence for a class. */
export interface Explanation {
  /** (1, height, width), from 0 to 1. */
  readonly map: HostTensor;
  /** The layer whose maps were looked at. */
  readonly layer: string;
}

/** A model that is open. */
export interface ServedModel {
  readonly spec: ModelSpec;
  /**
   * Compute the outputs of inputs that were checked against `spec`. In a batched model the first dimension of every tensor is
   * the batch.
   */
  readonly run: (inputs: readonly HostTensor[]) => Promise<readonly HostTensor[]>;
  /** Of a classifier of images. @param input (1, C, H, W) @param target the class */
  readonly explain?: (input: HostTensor, target: number) => Promise<Explanation>;
}
