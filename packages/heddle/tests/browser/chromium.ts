/** Headless Chromium, and a server for its pages. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import type { Browser } from 'playwright-core';

const PATH = '/usr/bin/chromium';

const playwright = await import('playwright-core').catch(() => undefined);

/** Why tests of pages are skipped, if they are. */
export const noChromium =
  playwright && existsSync(PATH) ? false : `${playwright ? PATH : 'playwright-core'} is not installed`;

export const openChromium = (): Promise<Browser> =>
  playwright!.chromium.launch({
    executablePath: PATH,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
      ...['--disable-background-networking', '--disable-component-update'],
    ],
  });

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
};

/**
 * Serve folders by the first part of a path. `/page/x` is an HTML page that runs `/x` as a module.
 * @param isolated whether pages are cross-origin isolated
 */
export async function serve(
  folders: Readonly<Record<string, string>>,
  isolated: boolean,
): Promise<{ readonly url: string; readonly close: () => void }> {
  const server: Server = createServer(async (request, response) => {
    const [, first = '', rest = ''] = /^\/([^/]*)\/?(.*)$/.exec(
      normalize(new URL(request.url!, 'http://h').pathname),
    )!;
    if (isolated) {
      response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
      response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp');
    }
    if (first === 'favicon.ico') {
      response.statusCode = 204;
      response.end();
      return;
    }
    if (first === 'page') {
      response.setHeader('Content-Type', 'text/html');
      response.end(`<!doctype html><title>test</title><script type="module" src="/${rest}"></script>`);
      return;
    }
    try {
      const content = await readFile(join(folders[first]!, rest));
      response.setHeader('Content-Type', TYPES[extname(rest)] ?? 'application/octet-stream');
      response.end(request.method === 'HEAD' ? undefined : content);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
