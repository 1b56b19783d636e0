/**
 * The colours of all pictures: each has one for light ground and one for dark. A picture is drawn in the light ones and
 * carries a style sheet that turns them into the dark ones where the reader prefers these.
 */

/** The same colour on light and on dark ground. */
export interface Color {
  readonly light: string;
  readonly dark: string;
}

const color = (light: string, dark: string): Color => ({ light, dark });

/** What pictures are drawn on. */
export const PAPER = color('#ffffff', '#1b1b1f');
/** Text, and lines that carry meaning. */
export const INK = color('#24292f', '#dfdfd6');
/** Captions and the numbers of axes. */
export const MUTED = color('#57606a', '#a8a8ad');
/** Lines behind the figures. */
export const RULE = color('#d8dee4', '#3c3f44');

/**
 * Lines, bars, and classes, in this order. Contrast to the paper is at least 3 : 1; the smallest distance of two of them in
 * OKLab, seen with normal sight, protanopia, deuteranopia or tritanopia, is 0.09 (Okabe and Ito's palette: 0.076).
 */
export const SERIES: readonly Color[] = [
  color('#3b6ea6', '#1f75e7'),
  color('#fa5b02', '#e67c05'),
  color('#014930', '#43c69a'),
  color('#94076b', '#99698a'),
  color('#a16ceb', '#a696f1'),
  color('#745807', '#fbba1c'),
  color('#189aaa', '#6de7f5'),
  color('#ab5f5d', '#c8483c'),
];

/** From none to all, of one hue. */
export const HEAT: readonly Color[] = [
  color('#f6f8fa', '#24262b'),
  color('#e3edf7', '#253240'),
  color('#c9def0', '#263f57'),
  color('#a9cbe6', '#264d70'),
  color('#86b5d9', '#255c8a'),
  color('#296fa8', '#6fa6d6'),
  color('#1d5d94', '#8fbbe2'),
  color('#154b7c', '#aecfed'),
  color('#0d3a64', '#cfe3f6'),
];
/** The first step of `HEAT` on which text has the colour of the paper. */
const STRONG = 5;

/** The step of a share of 0 to 1. */
export const heatStep = (share: number): number =>
  Math.min(HEAT.length - 1, Math.max(0, Math.round(share * (HEAT.length - 1))));

/** The colour of text on a step of `HEAT`. */
export const textOn = (step: number): Color => (step < STRONG ? INK : PAPER);

const ALL: readonly Color[] = [PAPER, INK, MUTED, RULE, ...SERIES, ...HEAT];

/** The class of every picture: the style sheet is for nothing else on a page. */
export const PICTURE = 'heddle-picture';

/** What turns the colours of a picture into those for dark ground: rules for the colours that it has. */
export const darkStyle = (svg: string): string => {
  const rules = ALL.filter(({ light }) => svg.includes(`="${light}"`)).map(
    ({ light, dark }) =>
      `.${PICTURE} [fill="${light}"]{fill:${dark}}.${PICTURE} [stroke="${light}"]{stroke:${dark}}`,
  );
  return `@media (prefers-color-scheme:dark){${rules.join('')}}`;
};

/** Small images of few pixels stay images of pixels. */
export const PIXEL_STYLE = `.${PICTURE} image{image-rendering:pixelated}`;

/** A picture in the colours for dark ground, for programs that read no style sheets. */
export const darkened = (svg: string): string =>
  ALL.reduce((text, { light, dark }) => text.replaceAll(`="${light}"`, `="\u0000${dark}"`), svg).replaceAll(
    '\u0000',
    '',
  );
