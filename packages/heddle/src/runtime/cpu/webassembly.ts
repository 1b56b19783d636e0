/** The part of the engine's `WebAssembly` we use, with types: those of TypeScript come only with the DOM's. */

export interface WasmMemory {
  readonly buffer: SharedArrayBuffer;
  /** Both in pages of 64 KiB. @throws RangeError if it cannot */
  grow(by: number): number;
}

/** Compiled; can be sent to other threads. */
export interface WasmModule {
  readonly [Symbol.toStringTag]: string;
}

export interface WasmInstance {
  readonly exports: Readonly<Record<string, unknown>>;
}

interface Api {
  readonly Memory: new (shape: { initial: number; maximum: number; shared: boolean }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => WasmModule;
  readonly Instance: new (
    module: WasmModule,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => WasmInstance;
  readonly validate: (bytes: Uint8Array<ArrayBuffer>) => boolean;
}

export const { Memory, Module, Instance, validate } = (globalThis as unknown as { readonly WebAssembly: Api })
  .WebAssembly;
