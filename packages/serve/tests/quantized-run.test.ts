/** Runs that `heddle quantize` has quantized, served with precision int8. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { noGrad, randn, type Tensor, tensor, useDevice } from 'heddle';
import { quantize } from 'heddle/quantization';
import { serve } from '../src/index.js';
import { pointsRun, temporaryFolder } from './models.js';

useDevice('cpu');

test('a quantized run is served in bytes; without the file of bytes it is refused', async () => {
  const folder = await temporaryFolder();
  const model = await pointsRun(join(folder, 'points'));
  await pointsRun(join(folder, 'floats'));
  const quantized = await quantize(model, [randn([256, 2])]);
  await quantized.save(join(folder, 'points', 'quantized.safetensors'));
  for (const name of ['points', 'floats'])
    await writeFile(join(folder, name, 'settings.json'), '{ "precision": "int8", "maxBatchSize": 4 }');
  const service = await serve(folder, { port: 0, grpcPort: null, device: 'cpu', logLevel: 'silent' });
  try {
    const data = [0.1, 0.2, -0.7, 0.4];
    const response = await fetch(`${service.url}/v2/models/points/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [{ name: 'input', datatype: 'FP32', shape: [2, 2], data }] }),
    });
    const { outputs } = (await response.json()) as { outputs: [{ data: number[] }] };
    const x = tensor(Float32Array.from(data), { shape: [2, 2] }) as Tensor;
    const [bytes, floats] = noGrad(() => [quantized.forward(x), model.forward(x)] as const);
    const [expected, exact] = await Promise.all([bytes.data(), floats.data()]);
    for (const [i, v] of outputs[0].data.entries())
      assert.ok(Math.abs(v - expected[i]!) < 1e-4, `${v}: ${expected[i]}`);
    assert.ok(
      exact.some((v, i) => Math.abs(v - expected[i]!) > 1e-3),
      'bytes and floats differ',
    );
    const index = await fetch(`${service.url}/v2/repository/index`, { method: 'POST', body: '{}' });
    const models = (await index.json()) as { name: string; reason?: string }[];
    const { reason } = models.find(({ name }) => name === 'floats')!;
    assert.match(reason!, /quantized\.safetensors.* does not exist: precision int8 serves what/);
  } finally {
    await service.close();
  }
});
