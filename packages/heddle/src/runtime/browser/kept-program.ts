/** Stands in for runtime/cpu/kept-program.ts in a browser, where every program is rendered. */
import type { ProgramModule, RenderOptions } from '../cpu/render.js';
import type { KernelLaunch } from '../device.js';

export const keptProgram = (
  _launches: readonly KernelLaunch[],
  options: RenderOptions,
  render: (options: RenderOptions) => ProgramModule,
): ProgramModule => render(options);
