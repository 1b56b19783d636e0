/** A static host for the site as built, which isolates its pages from other origins, so that they get threads. */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

/** Browsers give a page memory that its workers share only if it is cross-origin isolated. */
export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

const TYPES = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
});

/**
 * @param {string} folder that the site was built into @param {string} base that it was built for
 * @param {number} port 0 for a free one
 * @returns {Promise<{ address: string, close: () => void }>}
 */
export async function serve(folder, base, port) {
  const server = createServer(async ({ url = '/' }, response) => {
    const path = decodeURIComponent(new URL(url, 'http://localhost').pathname);
    const below = normalize(path.endsWith('/') ? `${path}index.html` : path);
    try {
      if (!below.startsWith(base)) throw new Error('not of this site');
      const content = await readFile(join(folder, below.slice(base.length)));
      const type = TYPES[extname(below)] ?? 'application/octet-stream';
      response.writeHead(200, { 'Content-Type': type, ...ISOLATION }).end(content);
    } catch {
      response.writeHead(404, { 'Content-Type': 'text/plain', ...ISOLATION }).end('There is no such page.');
    }
  });
  await new Promise((resolve, reject) =>
    server.once('error', reject).listen(port, 'localhost', () => resolve(undefined)),
  );
  const address = server.address();
  const at = address && typeof address === 'object' ? address.port : port;
  return { address: `http://localhost:${at}${base}`, close: () => server.close() };
}
