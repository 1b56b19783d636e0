/** The page at `/`, and the description of the service for programs. */
import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { openApi } from './openapi.js';

const asset = (name: string): Buffer => readFileSync(new URL(`../../../assets/${name}`, import.meta.url));

/** Nothing but what the service itself serves, and pictures that the page makes. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function addPageRoutes(app: FastifyInstance): void {
  const anyone = { config: { permission: 'anyone' } } as const;
  const files = [
    ['/', 'text/html; charset=utf-8', asset('index.html')],
    ['/style.css', 'text/css; charset=utf-8', asset('style.css')],
    ['/page.js', 'text/javascript; charset=utf-8', readFileSync(new URL('../page/page.js', import.meta.url))],
    ['/openapi.json', 'application/json', Buffer.from(JSON.stringify(openApi))],
  ] as const;
  for (const [path, type, body] of files)
    app.get(path, anyone, async (_request, reply) =>
      reply
        .header('content-type', type)
        .header('content-security-policy', POLICY)
        .header('x-content-type-options', 'nosniff')
        .send(body),
    );
}
