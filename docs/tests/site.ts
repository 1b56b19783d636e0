/** The site as it is built for a folder of a host that knows no rules, served, and read in Chromium. */
import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';

/** The folder of the workspace. */
function workspace(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'biome.json'))) folder = dirname(folder);
  return folder;
}

export const root = workspace();
export const BASE = '/heddle/';
/** Where the site is built for the tests. */
export const built = join(root, '.build', 'site');

/** @returns the build's output */
export async function buildSite(): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(root, 'scripts/docs.mjs'), 'build', '--base', BASE, '--out', built],
    { maxBuffer: 2 ** 26 },
  );
  return stdout;
}

/** The pages as built, below the base. */
export const builtPages = (): string[] =>
  readdirSync(built, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.html'))
    .sort();

/** The site, as `npm run docs -- preview` serves it. */
export async function serve(): Promise<{ readonly address: string; readonly close: () => void }> {
  const command = [join(root, 'scripts/docs.mjs'), 'preview', '--base', BASE, '--out', built, '--port', '0'];
  const server = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface(server.stdout)) {
    const address = /(http:\S+)/.exec(line)?.[1];
    if (address) return { address, close: () => void server.kill() };
  }
  throw new Error('the site is not served');
}

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
);

/** Why what needs a browser is skipped, if it is. */
export const noBrowser = CHROMIUM ? false : 'Chromium is not installed';

export const startBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: CHROMIUM!,
    args: [
      ...[
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
      ],
      ...['--disable-component-update', '--disable-sync'],
    ],
  });
