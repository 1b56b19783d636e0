/** The report of a run: all that its folder and its pictures say, in one file. */
import { comparisonOf } from 'heddle/internal/cli/runs.js';
import { counted, digits, percent } from '../numbers.js';
import { confusionOf, type Predictions } from '../predictions.js';
import type { RunHistory } from '../run/curves.js';
import type { PictureName } from '../run/names.js';
import type { Drawn } from '../run/options.js';
import { exampleInput } from '../run/pictures.js';
import type { Subject } from '../run/subject.js';
import { escaped, list, page, pictures, preformatted, type Section, table } from './html.js';
import { styleOf } from './style.js';

/** The sections of pictures: their headings, and what a newcomer needs to know to read them. */
const SECTIONS: Readonly<Record<PictureName, readonly [title: string, text: string]>> = {
  curves: [
    'Curves',
    'The loss is what the training makes smaller. Where the loss on the test set rises while that of the training falls, the network learns its examples by heart.',
  ],
  confusion: [
    'Confusion matrix',
    'A row for each class, a column for what its examples are taken for. What is off the diagonal is wrong.',
  ],
  mistakes: [
    'Worst mistakes',
    'The examples of the test set whose loss is highest: the network is surest, and wrong. Some of them may be labelled wrongly.',
  ],
  filters: [
    'Filters',
    'The weights that the first layer moves over an image. A filter gives a large number where the image looks like it.',
  ],
  features: ['Feature maps', 'What a layer makes of one image, a map for each of its filters.'],
  gradcam: [
    'Grad-CAM',
    'Where in an image the network finds the evidence for its answer: the gradients of the class with respect to a layer’s maps say how much each map counts.',
  ],
  embedding: [
    'Embedding',
    'Each example as the vector that the last layer gets, drawn in the two directions in which these vectors vary most. Classes that lie apart are easy to tell apart.',
  ],
  histograms: [
    'Weights and gradients',
    'How the numbers of each layer are distributed: mean ± standard deviation. Gradients near 0 in the first layers alone are vanishing gradients.',
  ],
};

/** A run in one HTML file. @param subject absent if only curves were drawn */
export async function reportOfRun(
  history: RunHistory,
  subject: Subject | undefined,
  drawn: readonly Drawn[],
): Promise<string> {
  const { config } = history;
  const judged = drawn.some(({ name, svgs }) => name === 'confusion' && svgs.length > 0)
    ? await subject?.predictions()
    : undefined;
  const parts = drawn.flatMap(({ name, svgs }): Section[] => {
    if (svgs.length === 0) return [];
    const [title, text] = SECTIONS[name];
    const more = name === 'confusion' && judged ? perClass(judged, subject!.classes) : '';
    return [
      {
        id: name,
        title,
        html: `<p>${escaped(text)}</p>${pictures(svgs, name)}${more}`,
        half: svgs.length === 1,
      },
    ];
  });
  const leftOut = drawn.filter(({ leftOut }) => leftOut !== undefined);
  const sections: Section[] = [
    { id: 'results', title: 'Results', html: cards(history, judged) },
    ...parts,
    {
      id: 'configuration',
      title: 'Configuration',
      html: list(settingsOf(history, subject)),
      half: parts.filter(({ half }) => half).length % 2 === 1,
    },
    ...(subject ? [{ id: 'network', title: 'Network', html: networkOf(subject) }] : []),
    { id: 'environment', title: 'Environment', html: list(environmentOf(history)) },
    ...(leftOut.length > 0
      ? [
          {
            id: 'left-out',
            title: 'Left out',
            html: list(leftOut.map(({ name, leftOut }) => [SECTIONS[name][0], leftOut!])),
          },
        ]
      : []),
  ];
  const title = `${config.program}: ${history.path}`;
  const subtitle = `Trained on ${config.started.slice(0, 10)} with Heddle ${config.heddle}`;
  return page(title, subtitle, styleOf(parts.map(({ html }) => html).join('')), sections);
}

/** Several runs side by side in one HTML file. */
export function reportOfRuns(histories: readonly RunHistory[], svgs: readonly string[]): string {
  const paths = histories.map(({ path }) => path);
  const [title, text] = SECTIONS.curves;
  const drawn = pictures(svgs, 'curves');
  return page(counted(histories.length, 'run'), paths.join(', '), styleOf(drawn), [
    {
      id: 'comparison',
      title: 'Side by side',
      html: table('The settings that differ, and the results', ['', ...paths], comparisonOf(paths)),
    },
    { id: 'curves', title, html: `<p>${escaped(text)}</p>${drawn}` },
  ]);
}

/** The figures that one asks for first. */
function cards({ epochs, config }: RunHistory, judged: Predictions | undefined): string {
  const last = epochs.at(-1);
  const accuracies = epochs.flatMap(({ test }) => test?.accuracy ?? []);
  const right = judged?.labels.filter((label, i) => label === judged.predicted[i]).length;
  const seconds = epochs.reduce((sum, { seconds }) => sum + seconds, 0);
  const figures: readonly (readonly [value: string, name: string] | undefined)[] = [
    judged && [percent(right! / judged.labels.length, 2), 'test accuracy of these weights'],
    judged
      ? undefined
      : accuracies.length > 0
        ? [percent(Math.max(...accuracies), 2), 'best test accuracy']
        : undefined,
    last?.test?.loss === undefined ? undefined : [digits(last.test.loss, 4), 'test loss, last epoch'],
    last && [digits(last.loss, 4), 'training loss, last epoch'],
    [`${epochs.length} of ${config.recipe.epochs}`, 'epochs'],
    [`${digits(seconds)} s`, 'of training'],
    [config.parameters.toLocaleString('en-US'), 'parameters'],
  ];
  return `<ul class="cards">${figures
    .flatMap((figure) =>
      figure ? [`<li><strong>${escaped(figure[0])}</strong><span>${escaped(figure[1])}</span></li>`] : [],
    )
    .join('')}</ul>`;
}

/** Precision, recall and F1 of each class, as scikit-learn defines them. */
function perClass(found: Predictions, classes: readonly string[]): string {
  const counts = confusionOf(found);
  const share = (a: number, b: number): string => (b === 0 ? '–' : percent(a / b));
  const rows = counts.map((row, c) => {
    const labelled = row.reduce((a, b) => a + b, 0);
    const predicted = counts.reduce((sum, other) => sum + other[c]!, 0);
    const right = row[c]!;
    return [
      classes[c] ?? String(c),
      labelled.toLocaleString('en-US'),
      share(right, predicted),
      share(right, labelled),
      share(2 * right, labelled + predicted),
    ];
  });
  return `<h3>By class</h3>${table('How well each class is told from the others', ['class', 'examples', 'precision', 'recall', 'F1'], rows)}`;
}

const textOf = (value: unknown): string =>
  typeof value === 'object' && value !== null
    ? Object.entries(value)
        .map(([name, v]) => `${name} ${String(v)}`)
        .join(', ')
    : String(value);

function settingsOf({ config }: RunHistory, subject: Subject | undefined): (readonly [string, string])[] {
  const { data, recipe, program, seed } = config;
  return [
    ['program', program],
    ['data', subject?.data.name ?? data.set ?? data.source],
    ['training examples', data.train.toLocaleString('en-US')],
    ['test examples', data.test.toLocaleString('en-US')],
    ...(data.vocabulary === undefined ? [] : [['characters', String([...data.vocabulary].length)] as const]),
    ...(data.tokenizer === undefined ? [] : [['byte-pair tokens', String(data.tokenizer.size)] as const]),
    ...Object.entries(recipe).map(([name, value]) => [name, textOf(value)] as const),
    ['seed', String(seed)],
  ];
}

const environmentOf = ({ config }: RunHistory): (readonly [string, string])[] => [
  ['device', config.device.name],
  ['processor', config.device.description],
  ['Heddle', config.heddle],
  ['Node.js', config.node],
  ['started', config.started],
];

function networkOf(subject: Subject): string {
  const { model, program, file } = subject;
  const summary = model.summary(exampleInput(subject), { batchSize: 1 });
  return (
    `<p>${escaped(`${program.doc[0]!.toUpperCase()}${program.doc.slice(1)}.`)} Weights: <code>${escaped(file)}</code></p>` +
    preformatted('The layers of the network', String(summary))
  );
}
