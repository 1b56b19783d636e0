/** Other WebAssembly modules run with the flags that Heddle sets for its kernels: the HTTP parser of `fetch` is one. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { ones, useDevice } from '../../src/index.js';

test('fetch works in a process that computes on the CPU', async () => {
  useDevice('cpu');
  assert.equal(await ones([8]).sum().item(), 8);
  const server = createServer((_, response) => response.end('here'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    for (let i = 0; i < 50; i++)
      assert.equal(await (await fetch(`http://127.0.0.1:${port}/`)).text(), 'here');
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
