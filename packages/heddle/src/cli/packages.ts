/** Packages beside the library, which some commands need: loaded when they are asked for. */
import type { Command } from 'commander';
import { ArgumentError } from '../core/errors.js';
import type { Module } from '../nn/module.js';
import type { AnyTensor } from '../tensor/tensor.js';
import type { Curve } from './curves.js';
import type { DataPackage } from './data-package.js';
import type { StepProfile } from './step-profile.js';

/** What a package has that brings a command. */
export type AddCommand = (root: Command, ended: (exitCode: number) => void) => void;

/** What the commands take from heddle-bench. */
export interface BenchPackage {
  readonly addBench: AddCommand;
}

/** An image of bytes, row by row, its colours side by side, and what is written under it. */
export interface CaptionedImage {
  readonly raster: {
    readonly width: number;
    readonly height: number;
    readonly channels: 1 | 3;
    readonly pixels: Uint8Array;
  };
  readonly captions?: readonly string[];
}

/** What the commands take from heddle-look. */
export interface LookPackage {
  readonly addLook: AddCommand;
  /** Images side by side in rows. @returns an SVG */
  readonly imagesSvg: (
    images: readonly CaptionedImage[],
    options: { readonly title: string; readonly subtitle: string },
  ) => Promise<string>;
  readonly toPng: (svg: string) => Promise<Uint8Array>;
  /** Curves over a common x axis. @returns an SVG */
  readonly lineChart: (chart: {
    readonly title: string;
    /** What is along the axes, with their units. */
    readonly x: string;
    readonly y: string;
    readonly format?: 'number' | 'percent';
    readonly curves: readonly Curve[];
  }) => string;
  /** @returns an SVG */
  readonly rooflineChart: (profile: StepProfile) => string;
}

/** What the commands take from heddle-onnx. */
export interface OnnxPackage {
  readonly addOnnx: AddCommand;
  /** Writes a module as a model, for tensors like these. */
  readonly exportOnnx: (
    module: Module,
    exampleInputs: readonly AnyTensor[],
    options: { readonly path: string },
  ) => Promise<unknown>;
}

/** What the commands take from heddle-serve. */
export interface ServePackage {
  readonly addServe: AddCommand;
}

/** The packages by their names. */
interface Packages {
  'heddle-bench': BenchPackage;
  'heddle-data': DataPackage;
  'heddle-look': LookPackage;
  'heddle-onnx': OnnxPackage;
  'heddle-serve': ServePackage;
}

/** The package, or undefined if it is not installed. */
export async function optionalPackage<N extends keyof Packages>(name: N): Promise<Packages[N] | undefined> {
  try {
    return (await import(name as string)) as Packages[N];
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes(`'${name}'`)) throw error;
    return undefined;
  }
}

/** @param what is asked for @throws ArgumentError if the package is not installed */
export async function neededPackage<N extends keyof Packages>(name: N, what: string): Promise<Packages[N]> {
  const found = await optionalPackage(name);
  if (!found) throw new ArgumentError(`${what} needs the package ${name}. Install it: npm install ${name}`);
  return found;
}
