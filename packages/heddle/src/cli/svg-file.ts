/** What `--svg` asks for: a chart in a file, drawn by heddle-look. */
import { writeText } from './figures.js';
import { type LookPackage, neededPackage } from './packages.js';

/** Draws the chart and writes it. */
type SvgFile = (draw: (look: LookPackage) => string) => Promise<void>;

/**
 * The file that `--svg` names, to be opened before the figures are computed.
 * @returns undefined if nothing is to be drawn
 * @throws ArgumentError if heddle-look is not installed
 */
export async function svgFile(path: string | undefined): Promise<SvgFile | undefined> {
  if (path === undefined) return undefined;
  const look = await neededPackage('heddle-look', '--svg');
  return async (draw) => {
    await writeText(path, draw(look));
    process.stdout.write(`\ndrawn in ${path}\n`);
  };
}
