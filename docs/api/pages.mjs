/** Which page of the API has what: the source files of each, below packages/<name>/src. */
import { join } from 'node:path';

/**
 * @typedef {object} Page
 * @property {string} name of the file
 * @property {string} title
 * @property {readonly string[]} files or folders, without `.ts`; what the package exports of them stands in the page
 */

/** @type {readonly (readonly [group: string, pages: readonly Page[]])[]} */
export const GROUPS = [
  [
    'Tensors',
    [
      page(
        'tensor',
        'Tensor',
        'tensor/tensor',
        'tensor/handle',
        'tensor/indexing',
        'tensor/axes',
        'tensor/movement',
        'tensor/nested',
        'tensor/reductions',
        'tensor/scattering',
        'tensor/sorting',
        'core/shape',
      ),
      page('creating', 'Creating tensors', 'tensor/create'),
      page('random', 'Random numbers', 'tensor/random', 'core/philox'),
      page(
        'dtypes',
        'Dtypes and precision',
        'core/dtype',
        'core/precision',
        'tensor/precision',
        'tensor/autocast',
      ),
      page('einsum', 'Einstein summation', 'tensor/einsum'),
      page('shapes', 'Shapes as types', 'tensor/shape-types'),
    ],
  ],
  [
    'Functions on tensors',
    [
      page('activations', 'Activations', 'tensor/functional-activations', 'tensor/functional-rectifiers'),
      page(
        'convolutions',
        'Convolutions',
        'tensor/functional-convolutions',
        'tensor/functional-transposed-convolutions',
        'ops/conv2d',
      ),
      page('pooling', 'Pooling', 'tensor/functional-pooling', 'ops'),
      page('normalization', 'Normalization', 'tensor/functional-normalization'),
      page(
        'losses',
        'Losses',
        'tensor/functional-losses',
        'tensor/functional-ctc',
        'tensor/functional-similarity',
      ),
      page(
        'attention',
        'Attention and embedding',
        'tensor/functional-attention',
        'tensor/functional-embedding',
      ),
      page('images', 'Images', 'tensor/functional-images'),
      page('functional', 'Linear, dropout and others', 'tensor/functional-layers', 'tensor'),
    ],
  ],
  [
    'Programs',
    [
      page('gradients', 'Gradients', 'tensor/differentiate', 'tensor/gradcheck'),
      page('jit', 'Compiled functions', 'tensor/jit'),
      page(
        'kernels',
        'Kernels',
        'tensor/kernel',
        'kernel',
        'engine/launch',
        'runtime/launch-rules',
        'runtime/sim',
        'runtime/source',
      ),
      page('devices', 'Devices, memory and time', 'tensor/modes', 'engine', 'runtime', 'schedule'),
      page('errors', 'Errors', 'core/errors', 'core'),
    ],
  ],
  [
    'Layers (nn)',
    [
      page(
        'module',
        'Modules and containers',
        'nn/module',
        'nn/container',
        'nn/lists',
        'nn/summary',
        'nn/layer-types',
      ),
      page('layers', 'Linear, embedding and dropout', 'nn/linear', 'nn/embedding', 'nn/regularization', 'nn'),
      page(
        'layers-convolution',
        'Convolution and pooling',
        'nn/convolution',
        'nn/pooling',
        'nn/padding',
        'nn/images',
      ),
      page('layers-normalization', 'Normalization', 'nn/normalization'),
      page('layers-activation', 'Activation', 'nn/activation', 'nn/rectifiers'),
      page(
        'layers-sequence',
        'Recurrent layers and transformers',
        'nn/recurrent',
        'nn/attention',
        'nn/transformer',
        'nn/key-value-cache',
      ),
      page('init', 'Initial values', 'nn/init'),
    ],
  ],
  [
    'Training',
    [
      page('optimizers', 'Optimizers', 'optim'),
      page(
        'schedules',
        'Learning-rate schedules',
        'optim/schedules',
        'optim/lr-schedule',
        'optim/lr-scheduler',
      ),
      page(
        'fit',
        'Training loop',
        'train/fit',
        'train/fit-options',
        'train/evaluate',
        'train/callbacks',
        'train',
      ),
      page('metrics', 'Metrics', 'train/metrics', 'train/metric-kinds'),
      page(
        'checkpoints',
        'Checkpoints and logs',
        'train/checkpoint',
        'train/checkpoint-file',
        'train/weights',
        'train/json-log',
        'train/summary-writer',
      ),
      page('networks', 'Networks', 'train/programs', 'train/recipes', 'train/gpt'),
      page('quantization', 'Quantization', 'tensor/functional-quantization', 'quantization'),
    ],
  ],
  ['Inference', [page('inference', 'Inference', 'inference')]],
  ['Several processes', [page('distributed', 'Several processes', 'distributed')]],
  [
    'Data and files',
    [
      page('data', 'Data sets and loaders', 'data'),
      page('transforms', 'Transforms', 'transforms'),
      page('io', 'File formats', 'io'),
    ],
  ],
];

/** @param {string} name @param {string} title @param {string[]} files @returns {Page} */
function page(name, title, ...files) {
  return { name, title, files };
}

/** The page of an export: the one that names its file, or the nearest folder. @param {import('./exports.mjs').Exported} exported @returns {Page} */
export function pageOf({ packageName, file }) {
  if (packageName !== 'heddle') return otherPage(packageName, packageName);
  const pages = GROUPS.flatMap(([, of]) => of);
  for (let path = file; path !== '.'; path = join(path, '..')) {
    const page = pages.find(({ files }) => files.includes(path));
    if (page) return page;
  }
  return otherPage(file.split('/')[0], `heddle/${file.split('/')[0]}`);
}

/** Pages that the table does not have: of other packages, and of folders that are new. @type {Map<string, Page>} */
export const others = new Map();
/** A page that the table does not have. @param {string} name @param {string} title @returns {Page} */
function otherPage(name, title) {
  const page = others.get(name) ?? { name, title, files: [] };
  others.set(name, page);
  return page;
}
