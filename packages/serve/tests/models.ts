/** Folders of models for tests: runs as `heddle train` leaves them, with random weights. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { manualSeed, type nn } from 'heddle';
import { PROGRAMS, saveWeights } from 'heddle/train';

/** A run of LeNet-5 on MNIST. @returns the network, with the weights of the run */
export async function lenetRun(folder: string, seed = 1): Promise<nn.Layer> {
  manualSeed(seed);
  const classNames = Array.from({ length: 10 }, (_, digit) => String(digit));
  return writeRun(folder, 'lenet5', PROGRAMS.lenet5.build(), { inputShape: [1, 28, 28], classNames });
}

/** A run of a small network on points of the plane. */
export async function pointsRun(folder: string, seed = 1): Promise<nn.Layer> {
  manualSeed(seed);
  return writeRun(folder, 'quadrants', PROGRAMS.quadrants.build(), { classNames: ['0', '1'] });
}

/** A run of a small language model on the characters a to h. */
export async function textRun(folder: string): Promise<nn.Layer> {
  manualSeed(1);
  const vocabulary = 'abcdefgh';
  const sizes = { context: 4, dim: 8, heads: 2, depth: 1, dropout: 0 };
  const recipe = { ...PROGRAMS.gpt.recipe, sizes };
  return writeRun(folder, 'gpt', PROGRAMS.gpt.build(recipe, { classes: 8 }), { vocabulary }, recipe);
}

async function writeRun(
  folder: string,
  program: keyof typeof PROGRAMS,
  model: nn.Layer,
  data: object,
  recipe: object = PROGRAMS[program].recipe,
): Promise<nn.Layer> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify({ program, recipe, data, seed: 1 }));
  await saveWeights(model, join(folder, 'weights.safetensors'));
  model.eval();
  return model;
}

/** A folder that is removed after the tests of the file. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'heddle-serve-'));
  after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
