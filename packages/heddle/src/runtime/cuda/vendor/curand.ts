/** cuRAND: uniform and normal random numbers, the yardstick of our own Philox kernels (B5). */
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import { optionsOf } from './library-options.js';
import type { LibraryContext, PreparedRoutine } from './routine.js';
import { created, openVendorLibrary, perDevice } from './vendor-library.js';

const SIGNATURES = {
  curandCreateGenerator: ['memory', 'i32'],
  curandDestroyGenerator: ['address'],
  curandSetPseudoRandomGeneratorSeed: ['address', 'u64'],
  curandSetStream: ['address', 'address'],
  curandGenerateUniform: ['address', 'address', 'u64'],
  curandGenerateNormal: ['address', 'address', 'u64', 'f32', 'f32'],
} as const;

/** The generator that ours is, too: Philox4x32-10. */
const PHILOX = 161;

const curand = perDevice(() => openVendorLibrary('curand', SIGNATURES));

/**
 * `curand.uniform` in (0, 1] and `curand.normal` (mean 0, deviation 1). Argument: the f32 output. Options: seed,
 * count (even for normal). Each run goes on where the one before stopped.
 */
export function prepareRandom(call: LibraryCall, context: LibraryContext): PreparedRoutine {
  const lib = curand(context);
  const o = optionsOf(call);
  const count = o.number('count');
  const generator = created((out) => lib.curandCreateGenerator(out, PHILOX));
  lib.curandSetPseudoRandomGeneratorSeed(generator, o.number('seed'));
  return {
    workspaceBytes: 0,
    enqueue(stream, [out]) {
      lib.curandSetStream(generator, stream);
      if (call.name === 'curand.normal') lib.curandGenerateNormal(generator, out as number, count, 0, 1);
      else lib.curandGenerateUniform(generator, out as number, count);
    },
    dispose: () => lib.curandDestroyGenerator(generator),
  };
}
