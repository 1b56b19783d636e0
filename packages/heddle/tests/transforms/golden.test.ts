/** Transforms against torchvision, on the device and on the host, with the same random numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realize, tensor, transforms } from '../../src/index.js';
import { DevicePixels } from '../../src/transforms/device-pixels.js';
import { HostPixels } from '../../src/transforms/host-pixels.js';
import type { Draws, Pixels } from '../../src/transforms/pixels.js';
import { definitionOf, type Transform } from '../../src/transforms/transform.js';
import { assertClose } from '../close.js';
import { type GoldenCase, goldenCases } from '../golden/golden.js';

/** Given numbers, of each image, one after the other. */
const given = <P extends Pixels<P>>(numbers: readonly P[]): Draws<P> => {
  const rest = [...numbers];
  const uniform = (): P => rest.shift()!;
  return {
    uniform,
    uniforms: (count) => Array.from({ length: count }, uniform),
    normal: () => assert.fail('nothing normal is drawn'),
  };
};

/** Its arguments are checked by itself. */
const make = transforms as unknown as Readonly<Record<string, (...args: unknown[]) => Transform>>;

interface GivenArguments {
  readonly positional: readonly unknown[];
  readonly options: object;
  /** Of each image. */
  readonly draws: readonly (readonly number[])[];
}

const byOp = new Map<string, GoldenCase[]>();
for (const c of goldenCases('transforms')) byOp.set(c.op, [...(byOp.get(c.op) ?? []), c]);

const close = { relative: 1e-5, absolute: 2e-6 };

for (const [op, cases] of byOp)
  test(`torchvision's ${op}: ${cases.length} cases`, async () => {
    const results = cases.map(({ name, args, inputs, outputs }) => {
      const { positional, options, draws } = args as unknown as GivenArguments;
      const made = make[op]!(...positional, ...(Object.keys(options).length > 0 ? [options] : []));
      const { apply } = definitionOf(made);
      const [count, channels, height, width] = inputs.x!.shape as [number, number, number, number];
      const data = inputs.x!.data as Float32Array;
      const batch = new DevicePixels(tensor(data.slice(), { shape: [count, channels, height, width] }));
      const drawn = draws[0]!.map(
        (_, i) =>
          new DevicePixels(
            tensor(
              draws.map((own) => own[i]!),
              { shape: [count, 1, 1, 1] },
            ),
          ),
      );
      const onDevice = apply(batch, given(drawn)).values;
      assert.deepEqual(onDevice.shape, outputs.output!.shape, name);
      const onHost = draws.map((numbers, i) => {
        const size = data.length / count;
        const image = new HostPixels(data.slice(i * size, (i + 1) * size), [channels, height, width]);
        return apply(image, given(numbers.map((n) => image.number(n))));
      });
      return { name, onDevice, onHost, output: outputs.output! };
    });
    realize(...results.map(({ onDevice }) => onDevice));
    for (const { name, onDevice, onHost, output } of results) {
      assertClose(await onDevice.data(), output.data, `${name}, on the device`, close);
      const size = output.data.length / onHost.length;
      for (const [i, { channels, height, width, data }] of onHost.entries()) {
        assert.deepEqual([channels, height, width], output.shape.slice(1), name);
        assertClose(
          data,
          output.data.slice(i * size, (i + 1) * size),
          `${name}, image ${i} on the host`,
          close,
        );
      }
    }
  });
