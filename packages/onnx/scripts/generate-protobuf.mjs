/**
 * Generates src/protobuf/onnx_pb.ts from onnx.proto, which lies in the `onnx` package of Python. The version of that package
 * is the version of ONNX that the sources know. Needs Python with `onnx`, and npm for buf and protoc-gen-es.
 * Usage: npm run generate -w heddle-onnx
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const GENERATOR = '@bufbuild/protoc-gen-es@2.13.0';
const COMPILER = '@bufbuild/buf@1.75.0';

const target = join(dirname(dirname(fileURLToPath(import.meta.url))), 'src', 'protobuf', 'onnx_pb.ts');
const find = 'import onnx, os; print(os.path.dirname(onnx.__file__)); print(onnx.__version__)';
const [wheel, version] = execFileSync('python3', ['-c', find], { encoding: 'utf8' }).trim().split('\n');

const folder = mkdtempSync(join(tmpdir(), 'onnx-proto-'));
try {
  copyFileSync(join(wheel, 'onnx.proto'), join(folder, 'onnx.proto'));
  const plugin = {
    local: 'protoc-gen-es',
    out: '.',
    opt: ['target=ts', 'import_extension=js', 'erasable_syntax=true'],
  };
  writeFileSync(join(folder, 'buf.gen.yaml'), JSON.stringify({ version: 'v2', plugins: [plugin] }));
  const packages = ['--yes', '--package', COMPILER, '--package', GENERATOR];
  execFileSync('npx', [...packages, 'buf', 'generate'], { cwd: folder, stdio: 'inherit' });
  copyFileSync(join(folder, 'onnx_pb.ts'), target);
} finally {
  rmSync(folder, { recursive: true });
}
console.log(`${target}: ${readFileSync(target, 'utf8').split('\n').length} lines of onnx ${version}`);
