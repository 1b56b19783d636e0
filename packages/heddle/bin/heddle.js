#!/usr/bin/env node
// The command is linked when the package is installed, in a clone before it is built.
import { existsSync } from 'node:fs';
import module from 'node:module';

const main = new URL('../dist/bundle/main.js', import.meta.url);
if (existsSync(main)) {
  // From Node 22.1 on: what V8 made of the modules is kept for the next start.
  module.enableCompileCache?.();
  await import(main.href);
} else {
  console.error('heddle is not built yet. Run: npm run build');
  process.exitCode = 1;
}
