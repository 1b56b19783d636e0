#!/usr/bin/env node
// The command is linked when the package is installed, in a clone before it is built.
import { existsSync } from 'node:fs';

const main = new URL('../dist/src/cli/main.js', import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  console.error('heddle is not built yet. Run: npm run build');
  process.exitCode = 1;
}
