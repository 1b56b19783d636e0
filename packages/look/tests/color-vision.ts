/** How far apart colours are, as people see them. */

type Rgb = readonly [number, number, number];

const linear = (c: number): number => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);

export const rgbOf = (hex: string): Rgb =>
  [1, 3, 5].map((at) => linear(Number.parseInt(hex.slice(at, at + 2), 16) / 255)) as unknown as Rgb;

/** G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, A physiologically-based model for simulation of color vision deficiency (2009). */
const SIGHTS: Readonly<Record<string, readonly number[]>> = {
  normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

const times = (m: readonly number[], [r, g, b]: Rgb): Rgb =>
  [0, 3, 6].map((row) => m[row]! * r + m[row + 1]! * g + m[row + 2]! * b) as unknown as Rgb;

const clamped = (rgb: Rgb): Rgb => rgb.map((c) => Math.min(1, Math.max(0, c))) as unknown as Rgb;

/** B. Ottosson, A perceptual color space for image processing (2020). */
const oklab = (rgb: Rgb): Rgb =>
  times(
    [
      ...[0.2104542553, 0.793617785, -0.0040720468, 1.9779984951, -2.428592205, 0.4505937099],
      ...[0.0259040371, 0.7827717662, -0.808675766],
    ],
    times(
      [
        ...[0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566],
        ...[0.0883024619, 0.2817188376, 0.6299787005],
      ],
      rgb,
    ).map(Math.cbrt) as unknown as Rgb,
  );

/** In OKLab, with the kind of sight that tells them apart least. */
export const distance = (a: string, b: string): number =>
  Math.min(
    ...Object.values(SIGHTS).map((sight) => {
      const [p, q] = [a, b].map((hex) => oklab(clamped(times(sight, rgbOf(hex)))));
      return Math.hypot(...p!.map((c, i) => c - q![i]!));
    }),
  );

/** WCAG 2: 1 to 21. */
export function contrast(a: string, b: string): number {
  const luminances = [a, b].map((hex) => times([0.2126, 0.7152, 0.0722, 0, 0, 0, 0, 0, 0], rgbOf(hex))[0]);
  return (Math.max(...luminances) + 0.05) / (Math.min(...luminances) + 0.05);
}
