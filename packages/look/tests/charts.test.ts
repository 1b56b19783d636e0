/** Charts are well-formed, have what they are asked for, and can be read by everyone. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { LookPackage } from 'heddle/internal/cli/packages.js';
import sharp from 'sharp';
import * as look from '../src/index.js';
import { type Curve, lineChart, toPng } from '../src/index.js';
import { HEAT, heatStep, INK, MUTED, PAPER, SERIES, textOn } from '../src/palette.js';
import { contrast, distance } from './color-vision.js';

// What the commands of heddle take from this package is here.
look satisfies LookPackage;

test('lines and classes are told apart by everyone, on light and on dark ground; texts can be read', () => {
  for (const scheme of ['light', 'dark'] as const) {
    for (const [i, { [scheme]: color }] of SERIES.entries()) {
      assert(contrast(color, PAPER[scheme]) >= 3, `${color} on ${PAPER[scheme]}`);
      for (const other of SERIES.slice(0, i))
        assert(distance(color, other[scheme]) > 0.09, `${color} and ${other[scheme]}`);
    }
    for (const text of [INK, MUTED]) assert(contrast(text[scheme], PAPER[scheme]) >= 4.5);
    for (const [step, { [scheme]: color }] of HEAT.entries())
      assert(contrast(textOn(step)[scheme], color) >= 4.5, `text on ${color}`);
  }
  assert.deepEqual([-1, 0, 0.5, 1, 2].map(heatStep), [0, 0, 4, 8, 8]);
});

const curves: readonly Curve[] = [
  {
    name: 'a <run> & "more"',
    points: [
      [0, 1],
      [1, 0.5],
      [2, Number.NaN],
      [3, 0.25],
    ],
  },
  {
    name: 'b',
    points: [
      [0, 0.75],
      [3, 0],
    ],
  },
];

/** The lines of a chart, each as its pieces of points. */
const linesOf = (svg: string): number[][][] =>
  [...svg.matchAll(/<path d="(M[^"]*)" fill="none" stroke="#\w+" stroke-width="2"/g)].map(([, path]) =>
    path!
      .split(/[ML]/)
      .filter(Boolean)
      .map((point) => point.split(' ').map(Number)),
  );

test('a line chart has its axes with units, and a gap where a figure is not finite', async () => {
  const svg = lineChart({ title: 'loss & <more>', x: 'epoch', y: 'loss (nats)', curves });
  const [a, b] = linesOf(svg) as [number[][], number[][]];
  assert.equal(a.length, 3);
  // 1, 0.5 and 0.25 of the first, 0.75 and 0 of the second
  const y = (value: number): number => a[0]![1]! + (1 - value) * 2 * (a[1]![1]! - a[0]![1]!);
  assert(Math.abs(b[0]![1]! - y(0.75)) < 0.2 && Math.abs(b[1]![1]! - y(0)) < 0.2);
  for (const text of [
    'epoch',
    'loss (nats)',
    'loss &amp; &lt;more&gt;',
    'a &lt;run&gt; &amp; &quot;more&quot;',
  ])
    assert(svg.includes(`>${text}</text>`), text);
  assert.match(
    svg,
    /^<svg xmlns="[^"]+" class="heddle-picture" width="720" height="\d+" [^>]*aria-label="loss &amp; &lt;more&gt;">/,
  );
  assert.doesNotMatch(svg, /NaN|undefined|zr\d|ecmeta|<script|https?:(?!\/\/www\.w3\.org)/);
  // The same again, whatever was drawn before
  assert.equal(lineChart({ title: 'loss & <more>', x: 'epoch', y: 'loss (nats)', curves }), svg);
  // librsvg refuses what is not well-formed.
  const { width, height } = await sharp(await toPng(svg, { scale: 1 })).metadata();
  assert.deepEqual([width, String(height)], [720, /height="(\d+)"/.exec(svg)![1]]);
});

test('a narrow chart keeps the size of its texts; without a title it still says what it is', () => {
  const chart = {
    title: 'a title that is too long for one line of a phone',
    x: 'epoch',
    y: 'test accuracy',
    curves,
  };
  const svg = lineChart({ ...chart, format: 'percent' }, { width: 360 });
  assert.equal(svg.match(/font-weight:600/g)!.length, 2);
  assert.match(svg, />100 %<\/text>/);
  const bare = lineChart(chart, { titled: false });
  assert.match(bare, /aria-label="a title that/);
  assert.doesNotMatch(bare, />a title/);
});

test('a PNG has the colours for the ground it is drawn on', async () => {
  const svg = look.barChart({
    title: 't',
    x: 'x',
    mark: { value: 2, name: 'as fast' },
    bars: [
      { label: 'slow', value: 1, text: '1×' },
      { label: 'fast', value: 3, text: '3×' },
    ],
  });
  for (const scheme of ['light', 'dark'] as const) {
    const { data, info } = await sharp(await toPng(svg, { scheme, scale: 1 }))
      .raw()
      .toBuffer({ resolveWithObject: true });
    const found = new Set<string>();
    for (let i = 0; i < data.length; i += info.channels)
      found.add(`#${[0, 1, 2].map((c) => data[i + c]!.toString(16).padStart(2, '0')).join('')}`);
    for (const color of [PAPER, INK, SERIES[0]!, SERIES[1]!])
      assert(found.has(color[scheme]), `${scheme} ${color[scheme]}`);
    const other = scheme === 'light' ? 'dark' : 'light';
    for (const color of [PAPER, SERIES[0]!, SERIES[1]!])
      assert(!found.has(color[other]), `${scheme} ${color[other]}`);
  }
});

test('a machine without fonts is told so, once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-fonts-'));
  const program = `
    import { toPng } from ${JSON.stringify(new URL('../src/index.js', import.meta.url).href)};
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text y="9">a</text></svg>';
    for (let i = 0; i < 2; i++) await toPng(svg);`;
  try {
    const config = join(folder, 'fonts.conf');
    writeFileSync(config, '<?xml version="1.0"?><fontconfig></fontconfig>');
    const env = { ...process.env, FONTCONFIG_FILE: config };
    const args = ['--input-type=module', '-e', program];
    const { stderr } = await promisify(execFile)(process.execPath, args, { env });
    assert.equal(stderr.match(/this machine has no fonts/g)?.length, 1, stderr);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
