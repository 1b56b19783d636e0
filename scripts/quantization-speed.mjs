/**
 * How fast engines of a model are in f32 and in 8 bits, run in turns: the median of the ratios of neighbouring runs.
 * Usage: node scripts/quantization-speed.mjs [lenet5 | resnet18 …] [--batches 1,32] [--seconds 5]
 */
import { parseArgs } from 'node:util';
import { manualSeed, randn } from 'heddle';
import { compile } from 'heddle/inference';
import { quantize } from 'heddle/quantization';
import { PROGRAMS } from 'heddle/train';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    batches: { type: 'string', default: '1,32' },
    seconds: { type: 'string', default: '5' },
  },
});
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];

for (const name of positionals.length > 0 ? positionals : ['lenet5', 'resnet18']) {
  manualSeed(0);
  const model = PROGRAMS[name].build();
  const shape = [1, 28, 28];
  const quantized = await quantize(model, [randn([16, ...shape])]);
  for (const batch of values.batches.split(',').map(Number)) {
    const engines = [];
    for (const m of [model, quantized])
      engines.push(await compile(m, { shapes: [shape], batchSizes: [batch] }));
    const x = [Float32Array.from(await randn([batch, ...shape]).data())];
    const time = async (engine) => {
      const start = performance.now();
      await engine.runArrays(x, batch);
      return performance.now() - start;
    };
    for (let i = 0; i < 5; i++) for (const engine of engines) await time(engine);
    const [floats, bytes, ratios] = [[], [], []];
    const end = performance.now() + 1000 * Number(values.seconds);
    while (performance.now() < end || ratios.length < 5) {
      const [f, b] = [await time(engines[0]), await time(engines[1])];
      floats.push(f);
      bytes.push(b);
      ratios.push(f / b);
    }
    const ms = (list) => `${median(list).toFixed(3)} ms`;
    console.log(
      `${name}, batch ${batch}: f32 ${ms(floats)}, int8 ${ms(bytes)}, ${median(ratios).toFixed(2)} × as fast (${ratios.length} pairs)`,
    );
    for (const engine of engines) engine.dispose();
  }
}
