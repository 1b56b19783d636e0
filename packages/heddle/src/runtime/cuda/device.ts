/** The CUDA device: an NVIDIA GPU by its driver, composed of its context, streams, memory, compiler and kernels. */
import { debug } from '../../core/log.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import type {
  Device,
  DeviceBuffer,
  Dim3,
  HostMemory,
  KernelInfo,
  Launch,
  MemoryKind,
  MemoryReport,
  Program,
  Stream,
} from '../device.js';
import { formatBytes } from '../pool.js';
import { inspectKernel } from './compile/inspect.js';
import { Kernels } from './compile/kernels.js';
import { openNvrtc } from './compile/nvrtc.js';
import { CompileService } from './compile/service.js';
import { CudaContext } from './driver/context.js';
import { ATTRIBUTE, formatVersion, limitsOf, openDriver } from './driver/driver.js';
import { NativeMemory } from './driver/native.js';
import { Streams } from './driver/streams.js';
import { planLaunches } from './graph/plan.js';
import { CudaProgram } from './graph/program.js';
import { CudaMemory } from './memory/memory.js';
import { ROUTINES } from './vendor/libraries.js';
import type { LibraryContext } from './vendor/routine.js';

export class CudaDevice implements Device {
  readonly name: string;
  readonly description: string;
  readonly target: Target;
  readonly #context: CudaContext;
  readonly #streams: Streams;
  readonly #memory: CudaMemory;
  readonly #compiler: CompileService;
  readonly #kernels: Kernels;
  readonly #libraries: LibraryContext;

  /** @throws DeviceError if there is no such GPU, or no NVRTC to compile with */
  constructor(ordinal = 0) {
    const driver = openDriver();
    const nvrtc = openNvrtc(driver.version);
    const context = new CudaContext(driver, ordinal);
    this.name = context.name;
    this.target = targetOf(context, Math.min(driver.version, nvrtc.versionNumber));
    this.description = descriptionOf(context, this.target, nvrtc.version);
    this.#context = context;
    this.#streams = new Streams(context, this);
    this.#memory = new CudaMemory(context, this.#streams);
    this.#compiler = new CompileService(nvrtc, context.capability);
    this.#kernels = new Kernels(context, this.#compiler, this.target);
    this.#libraries = {
      ordinal,
      capability: context.capability,
      allocate: (bytes, label) => this.#memory.allocateWork(bytes, label),
    };
    debug(1, () => `${this.name}: ${this.description}`);
  }

  allocate(bytes: number, label: string): DeviceBuffer {
    return this.#memory.allocate(bytes, label);
  }

  free(buffer: DeviceBuffer): void {
    this.#memory.free(buffer);
  }

  write(buffer: DeviceBuffer, source: Uint8Array, offset = 0): void {
    this.#memory.write(buffer, source, offset);
  }

  clear(buffer: DeviceBuffer): void {
    this.#memory.clear(buffer);
  }

  openHostMemory(bytes: number, memory: MemoryKind): HostMemory | undefined {
    return this.#memory.openHostMemory(bytes, memory);
  }

  read(buffer: DeviceBuffer, offset = 0, bytes = buffer.bytes - offset): Promise<Uint8Array> {
    return this.#memory.read(buffer, offset, bytes);
  }

  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void {
    this.#memory.copy(from, to, bytes);
  }

  addressOf(buffer: DeviceBuffer): number {
    return this.#memory.addressOf(buffer);
  }

  expect(kernels: number): void {
    this.#compiler.expect(kernels);
  }

  prepare(launches: readonly Launch[]): boolean {
    return this.#kernels.begin(launches.filter((l) => 'kernel' in l));
  }

  compile(launches: readonly Launch[]): Program {
    return this.#context.call(() => {
      const plan = planLaunches(launches, this.#kernels, this.target, this.#libraries);
      return new CudaProgram(this.#context, this.#streams, this.#memory, launches, plan);
    });
  }

  openStream(): Stream {
    return this.#streams.open();
  }

  synchronize(): Promise<void> {
    return this.#streams.synchronize();
  }

  time(work: () => void): Promise<number> {
    return this.#streams.time(work);
  }

  timeSync(work: () => void): number {
    return this.#streams.timeSync(work);
  }

  inspect(kernel: KernelIr, block: Dim3, sharedBytes = 0): KernelInfo {
    this.#context.activate();
    return inspectKernel(this.#context, this.#kernels, kernel, block, sharedBytes);
  }

  memory(): MemoryReport {
    return this.#memory.report();
  }

  async close(): Promise<void> {
    if (this.#context.isClosed) return;
    this.#context.shut();
    await this.#compiler.close();
    this.#context.close(
      () => this.#streams.flush(),
      () => {
        this.#memory.close();
        this.#streams.close();
      },
    );
  }
}

/** @param version of CUDA that the driver and the compiler both know */
const targetOf = (context: CudaContext, version: number): Target => ({
  name: 'cuda',
  model: 'threads',
  units: context.attribute(ATTRIBUTE.multiprocessors),
  fma: true,
  limits: limitsOf((which) => context.attribute(which), version),
  capability: context.capability,
  overlapped: context.overlapped,
  libraries: new Set(Object.keys(ROUTINES).filter((name) => ROUTINES[name]!.available())),
});

/** One line for people. */
function descriptionOf({ driver, gpu, capability }: CudaContext, target: Target, nvrtc: string): string {
  const name = new NativeMemory(256);
  driver.api.cuDeviceGetName(name.address, 256, gpu);
  const memory = driver.handle((at) => driver.api.cuDeviceTotalMem_v2(at, gpu));
  return `${name.text()}, ${target.units} multiprocessors, ${formatBytes(memory)}, compute capability ${capability / 10}, driver for CUDA ${formatVersion(driver.version)}, NVRTC ${nvrtc}`;
}
