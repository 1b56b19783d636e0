/** The pictures of a run: which there are, and what each needs. */
import { ArgumentError, i32, nn, type Tensor, tensor } from 'heddle';
import { GPT } from 'heddle/internal/train/gpt.js';
import type { PictureOptions } from '../chart.js';
import { confusionMatrixSvg } from '../confusion.js';
import { featureMapsSvg, filtersSvg } from '../filters.js';
import { gradCamSvg } from '../grad-cam.js';
import { gradientsOf, histogramsSvg } from '../histograms.js';
import { traceCalls } from '../layers.js';
import { embeddingSvg } from '../pca.js';
import { confusionOf, examplesOf, mistakesSvg, worstMistakes } from '../predictions.js';
import type { PictureName } from './names.js';
import { moduleOf, type Subject } from './subject.js';

/** A picture that can be drawn. */
export interface Drawing {
  /** The file without its ending. */
  readonly file: string;
  readonly draw: (options: PictureOptions) => string | Promise<string>;
}

/** What can be drawn of a run, or why nothing can. */
type Drawings = readonly Drawing[] | string;

/** Pictures of the network; curves need none. */
export const MAKERS: Readonly<
  Record<Exclude<PictureName, 'curves'>, (subject: Subject) => Promise<Drawings>>
> = {
  confusion: async ({ test, classes, predictions }) => {
    if (!test) return NO_CLASSES;
    const counts = confusionOf(await predictions());
    return [{ file: 'confusion', draw: (options) => confusionMatrixSvg(counts, { classes, ...options }) }];
  },
  mistakes: async ({ test, ofImages, classes, predictions }) => {
    if (!test) return NO_CLASSES;
    if (!ofImages) return NO_IMAGES;
    const found = await predictions();
    if (worstMistakes(found, 1).length === 0) return 'the network makes no mistake on the test set';
    return [{ file: 'mistakes', draw: (options) => mistakesSvg(test, found, { classes, ...options }) }];
  },
  filters: async ({ model, layer, convolutions, test, ofImages }) => {
    const inputShape = ofImages ? test!.inputShape : undefined;
    const linear = [...model.namedModules()].find(([, module]) => module instanceof nn.Linear)?.[0];
    const name = layer ?? convolutions[0] ?? (ofImages ? linear : undefined);
    if (name === undefined) return 'the network has no layer that looks at images';
    const module = moduleOf(model, name);
    return [
      {
        file: `filters-${name}`,
        draw: (options) => filtersSvg(module, { name, ...(inputShape && { inputShape }), ...options }),
      },
    ];
  },
  features: async ({ model, layer, convolutions, ofImages, image }) => {
    const names = layer === undefined ? ends(convolutions) : [layer];
    if (!ofImages || names.length === 0) return NO_CONVOLUTIONS;
    const shown = await image();
    return names.map((name) => ({
      file: `features-${name}`,
      draw: (options) => featureMapsSvg(model, shown, { layer: name, ...options }),
    }));
  },
  gradcam: async (subject) => {
    const { model, layer, convolutions, ofImages, classes, test, options, predictions, image } = subject;
    if (!ofImages || (layer === undefined && convolutions.length === 0)) return NO_CONVOLUTIONS;
    const of = { layer, classes };
    if (options.image !== undefined) {
      const shown = await image();
      return [{ file: 'gradcam', draw: (drawing) => gradCamSvg(model, shown, { ...of, ...drawing }) }];
    }
    const found = await predictions();
    const right = classes.flatMap((_, c) => {
      const first = found.labels.findIndex((label, i) => label === c && found.predicted[i] === c);
      return first < 0 ? [] : [first];
    });
    const groups = [
      { file: 'gradcam', title: 'Where the network looks', examples: right.slice(0, 12) },
      {
        file: 'gradcam-mistakes',
        title: 'Where it looks when it is wrong',
        examples: worstMistakes(found, 8),
      },
    ];
    return groups
      .filter(({ examples }) => examples.length > 0)
      .map(({ file, title, examples }) => ({
        file,
        draw: async (drawing) =>
          gradCamSvg(model, (await examplesOf(test!, examples)).inputs, { ...of, title, ...drawing }),
      }));
  },
  embedding: async ({ model, test, classes, config, codec }) => {
    if (model instanceof GPT && codec) {
      const count = Math.min(POINTS, codec.size);
      const texts = Array.from({ length: count }, (_, code) => visible(codec.decode([code])));
      const name = config.data.vocabulary === undefined ? 'Tokens' : 'Characters';
      const weight = model.tokens.weight.at(`:${count}`);
      return [
        {
          file: 'embedding',
          draw: (options) => embeddingSvg(weight, { texts, name, ...options }),
        },
      ];
    }
    if (!test) return NO_CLASSES;
    const indices = Array.from({ length: Math.min(POINTS, test.length) }, (_, i) => i);
    const { inputs, labels } = await examplesOf(test, indices);
    const { calls } = traceCalls(model, inputs, (layer) => layer instanceof nn.Linear);
    const last = calls.at(-1);
    // A network that is one linear layer has no name for it.
    const rows = last ? last.input : inputs.flatten(1);
    if (rows.ndim !== 2) return 'the last linear layer takes no vectors (N, D)';
    rows.realize();
    const name = last ? `What ${last.name} gets` : 'Inputs';
    return [
      { file: 'embedding', draw: (options) => embeddingSvg(rows, { labels, classes, name, ...options }) },
    ];
  },
  histograms: async ({ model, program, data, config }) => {
    const { batchSize } = config.recipe;
    const { inputs, targets } =
      'classes' in data
        ? await labelled(data.train, batchSize)
        : data.train.slice(0, Math.min(WINDOWS, batchSize, data.train.length));
    const gradients = await gradientsOf(model, () =>
      program.loss('mean')(model.forward(inputs as Tensor), targets as Tensor),
    );
    return [{ file: 'histograms', draw: (options) => histogramsSvg(model, { gradients, ...options }) }];
  },
};

const NO_CLASSES = 'the network does not tell classes apart';
const NO_IMAGES = 'its inputs are not images';
const NO_CONVOLUTIONS = 'the network has no convolution over images';
/** Examples that are projected, or tokens. */
const POINTS = 500;
/** A text with its white space to be seen. */
const visible = (text: string): string =>
  text.replaceAll('\n', '↵').replaceAll(' ', '␣').replaceAll('\t', '⇥');
/** Windows of a text that gradients are taken of. */
const WINDOWS = 16;

/** The first and the last of a list. */
const ends = (names: readonly string[]): string[] =>
  [...new Set([names.at(0), names.at(-1)])].filter((n) => n !== undefined);

async function labelled(train: Parameters<typeof examplesOf>[0], batchSize: number) {
  const count = Math.min(batchSize, train.length);
  const { inputs, labels } = await examplesOf(
    train,
    Array.from({ length: count }, (_, i) => i),
  );
  return { inputs, targets: tensor(labels) };
}

/** What a network takes, of one example: for its summary. */
export const exampleInput = ({ test, config }: Subject): Parameters<nn.Module['summary']>[0] => {
  if (test) return test.inputShape;
  const { sizes } = config.recipe;
  if (!sizes) throw new ArgumentError('this run says nothing of the length of its texts.');
  return tensor(new Int32Array(sizes.context), { shape: [1, sizes.context], dtype: i32 });
};
