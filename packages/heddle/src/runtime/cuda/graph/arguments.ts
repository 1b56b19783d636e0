/** The arguments of a program's launches, laid out for the driver: values, and pointers to them. */

import { DeviceError } from '../../../core/errors.js';
import { toBf16, toF16 } from '../../../core/float16.js';
import { argumentsOf, type KernelIr, type Param } from '../../../kernel/ir/ir.js';
import type { Scalar } from '../../../kernel/ir/ops.js';
import { type BufferSchema, isBuffer } from '../../../kernel/ir/types.js';
import { type Launch, nameOfLaunch } from '../../device.js';
import type { Driver } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';
import { TENSOR_MAP, TensorMapEncoder } from '../driver/tensor-map.js';

/** Where a slot's address is written. */
interface AddressUse {
  readonly launch: number;
  readonly place: number;
  readonly offset: number;
  /** What writes the address, if it is not the argument itself. */
  readonly map: TensorMapEncoder | undefined;
}

export class ArgumentBlock {
  /** Buffers that a run must be given. */
  readonly slots: number;
  /** Address of each launch's array of pointers to its arguments. */
  readonly pointers: readonly number[];
  readonly #launches: readonly Launch[];
  readonly #memory: NativeMemory;
  readonly #uses: readonly (readonly AddressUse[])[];
  readonly #starts: readonly number[];

  constructor(driver: Driver, launches: readonly Launch[]) {
    this.#launches = launches;
    const count = launches.reduce((n, l) => n + l.args.length, 0);
    const { bytes, alignment } = TENSOR_MAP;
    const maps = launches.reduce((n, l) => n + l.args.filter((_, i) => mapOf(l, i)).length, 0);
    // Values, pointers to the arguments, tensor maps.
    this.#memory = new NativeMemory(16 * count + (maps > 0 ? bytes * maps + alignment : 0));
    const { address } = this.#memory;
    let nextMap = Math.ceil((address + 16 * count) / alignment) * alignment - address;
    const uses: AddressUse[][] = [];
    const starts: number[] = [];
    let next = 0;
    launches.forEach((launch, index) => {
      starts.push(next);
      launch.args.forEach((arg, i) => {
        const schema = mapOf(launch, i);
        const place = schema ? nextMap : 8 * next;
        if (schema) nextMap += bytes;
        this.#memory.setU64(8 * (count + next), address + place);
        next++;
        if ('slot' in arg) {
          while (uses.length <= arg.slot) uses.push([]);
          const map = schema && new TensorMapEncoder(driver, schema);
          uses[arg.slot]!.push({ launch: index, place, offset: arg.offset, map });
        } else {
          this.#memory.bytes.set(this.#scalar(index, i, arg.value), place);
        }
      });
      if ('kernel' in launch) checkArguments(launch);
    });
    this.slots = uses.length;
    this.#uses = uses;
    this.#starts = starts;
    this.pointers = starts.map((start) => this.#memory.address + 8 * (count + start));
  }

  /** Write a slot's address where it is used. */
  set(slot: number, address: number): void {
    for (const { place, offset, map } of this.#uses[slot]!) {
      if (map) map.encode(this.#memory.address + place, address + offset);
      else this.#memory.setU64(place, address + offset);
    }
  }

  /** @throws DeviceError if the argument is not a scalar */
  setScalar(launch: number, argument: number, value: Scalar): void {
    this.#memory.bytes.set(this.#scalar(launch, argument, value), 8 * (this.#starts[launch]! + argument));
  }

  /** Launches that use a slot. */
  usersOf(slot: number): readonly number[] {
    return this.#uses[slot]!.map((u) => u.launch);
  }

  /** The arguments of a launch of a library as they are now. */
  values(launch: number): number[] {
    return this.#launches[launch]!.args.map((arg, i) =>
      'slot' in arg ? this.#memory.u64(8 * (this.#starts[launch]! + i)) : Number(arg.value),
    );
  }

  #scalar(index: number, argument: number, value: Scalar): Uint8Array {
    const launch = this.#launches[index]!;
    const param = 'kernel' in launch ? argumentsOf(launch.kernel)[argument] : undefined;
    return scalarBytes(value, param, nameOfLaunch(launch));
  }
}

/** The schema of an argument that is passed as a tensor map. */
function mapOf(launch: Launch, argument: number): BufferSchema | undefined {
  const schema = 'kernel' in launch ? argumentsOf(launch.kernel)[argument]?.schema : undefined;
  return schema && isBuffer(schema) && schema.map ? schema : undefined;
}

function checkArguments(launch: Launch & { readonly kernel: KernelIr }): void {
  const params = argumentsOf(launch.kernel);
  const name = nameOfLaunch(launch);
  if (params.length !== launch.args.length)
    throw new DeviceError(`[${name}] takes ${params.length} arguments, got ${launch.args.length}.`);
  launch.args.forEach((arg, i) => {
    const param = params[i]!;
    if (isBuffer(param.schema) === 'slot' in arg) return;
    throw new DeviceError(
      `[${name}] ${param.name} is a ${isBuffer(param.schema) ? 'buffer, got a scalar' : 'scalar, got a buffer'}.`,
    );
  });
}

/** A scalar in the 8 bytes of its argument, as its type in memory. */
function scalarBytes(value: Scalar, param: Param | undefined, kernel: string): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  if (!param) view.setFloat64(0, Number(value), true);
  else if (isBuffer(param.schema))
    throw new DeviceError(`[${kernel}] ${param.name} is a buffer, got the scalar ${value}.`);
  else
    switch (param.schema.name) {
      case 'f16':
        view.setUint16(0, toF16(Number(value)), true);
        break;
      case 'bf16':
        view.setUint16(0, toBf16(Number(value)), true);
        break;
      case 'f32':
        view.setFloat32(0, Number(value), true);
        break;
      case 'f64':
        view.setFloat64(0, Number(value), true);
        break;
      case 'i64':
        view.setBigInt64(0, BigInt(value), true);
        break;
      case 'i32':
        view.setInt32(0, Number(value), true);
        break;
      case 'u32':
        view.setUint32(0, Number(value), true);
        break;
      case 'i8':
      case 'u8':
      case 'bool':
        view.setUint8(0, Number(value));
        break;
    }
  return new Uint8Array(view.buffer);
}
