/**
 * Generates src/grpc/generated/open_inference_grpc_pb.ts from assets/open_inference_grpc.proto. Needs npm for buf and protoc-gen-es.
 * Usage: npm run generate -w heddle-serve
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const GENERATOR = '@bufbuild/protoc-gen-es@2.13.0';
const COMPILER = '@bufbuild/buf@1.75.0';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(root, 'src', 'grpc', 'generated');
const folder = mkdtempSync(join(tmpdir(), 'serve-proto-'));
try {
  const plugin = {
    local: 'protoc-gen-es',
    out,
    opt: ['target=ts', 'import_extension=js', 'erasable_syntax=true'],
  };
  const template = join(folder, 'buf.gen.yaml');
  writeFileSync(template, JSON.stringify({ version: 'v2', plugins: [plugin] }));
  const packages = ['--yes', '--package', COMPILER, '--package', GENERATOR];
  execFileSync('npx', [...packages, 'buf', 'generate', '--template', template], {
    cwd: join(root, 'assets'),
    stdio: 'inherit',
  });
} finally {
  rmSync(folder, { recursive: true });
}
execFileSync('npx', ['biome', 'format', '--write', out], { stdio: 'inherit' });
