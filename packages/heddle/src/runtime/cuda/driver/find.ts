/** Where CUDA's libraries are: the toolkit, the system's folders, Python's wheels. Only looks at file names. */
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { homeFolder } from '#platform/files.js';
import { fileExists } from '../../disk-cache.js';

/** What a search depends on; tests give folders of their own. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Where absolute paths begin, `/` but in tests. */
  readonly root: string;
}

export const surroundings = (): Surroundings => ({ env: process.env, home: homeFolder(), root: '/' });

/** A folder that may hold libraries, and what it belongs to. */
export interface LibraryFolder {
  readonly folder: string;
  readonly origin: 'toolkit' | 'system' | 'conda' | 'wheel';
}

const list = (folder: string): string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
};

const paths = (text: string | undefined): string[] => (text ?? '').split(delimiter).filter((p) => p !== '');

/** Folders under `parent` whose name matches, the highest version first. */
const newest = (parent: string, name: RegExp): string[] =>
  list(parent)
    .filter((n) => name.test(n))
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    .map((n) => join(parent, n));

function toolkits({ env, root }: Surroundings): string[] {
  const homes = [
    ...paths(env.CUDA_HOME),
    ...paths(env.CUDA_PATH),
    ...newest(join(root, 'usr/local'), /^cuda/),
    join(root, 'opt/cuda'),
  ];
  return homes.flatMap((home) => [
    join(home, 'lib64'),
    join(home, 'targets/x86_64-linux/lib'),
    join(home, 'lib'),
  ]);
}

/** What the dynamic loader searches. */
export function systemFolders({ env, root }: Surroundings = surroundings()): string[] {
  const configured = [
    join(root, 'etc/ld.so.conf'),
    ...list(join(root, 'etc/ld.so.conf.d')).map((f) => join(root, 'etc/ld.so.conf.d', f)),
  ].flatMap((file) => {
    try {
      return readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line.startsWith('/'))
        .map((line) => join(root, line.trim()));
    } catch {
      return [];
    }
  });
  const standard = [
    'usr/lib/x86_64-linux-gnu',
    'usr/lib/aarch64-linux-gnu',
    'usr/lib64',
    'usr/lib',
    'usr/lib/wsl/lib',
  ];
  return [...paths(env.LD_LIBRARY_PATH), ...configured, ...standard.map((f) => join(root, f))];
}

/** Folders of Python packages, of the python3 that would run and the usual places, without running it. */
function sitePackages({ env, home, root }: Surroundings): string[] {
  const prefixes = new Set<string>([...paths(env.VIRTUAL_ENV), ...paths(env.CONDA_PREFIX)]);
  for (const folder of paths(env.PATH)) {
    const python = join(folder, 'python3');
    if (!fileExists(python)) continue;
    prefixes.add(dirname(folder));
    try {
      prefixes.add(dirname(dirname(realpathSync(python))));
    } catch {
      // A link that leads nowhere.
    }
    break;
  }
  prefixes.add(join(home, '.local'));
  prefixes.add(join(root, 'usr/local'));
  prefixes.add(join(root, 'usr'));
  return [
    ...paths(env.PYTHONPATH),
    ...[...prefixes].flatMap((prefix) =>
      newest(join(prefix, 'lib'), /^python3/).flatMap((lib) => [
        join(lib, 'site-packages'),
        join(lib, 'dist-packages'),
      ]),
    ),
  ];
}

/** All places to look at, the most likely to be wanted first. `packages` are the wheels' folders under `nvidia`. */
export function places(packages: readonly string[], around: Surroundings = surroundings()): LibraryFolder[] {
  const wheels = sitePackages(around).flatMap((site) =>
    packages.map((name) => join(site, 'nvidia', name, 'lib')),
  );
  const conda = paths(around.env.CONDA_PREFIX).map((prefix) => join(prefix, 'lib'));
  return [
    ...toolkits(around).map((folder): LibraryFolder => ({ folder, origin: 'toolkit' })),
    ...systemFolders(around).map((folder): LibraryFolder => ({ folder, origin: 'system' })),
    ...conda.map((folder): LibraryFolder => ({ folder, origin: 'conda' })),
    ...wheels.map((folder): LibraryFolder => ({ folder, origin: 'wheel' })),
  ];
}

/** A library that was found. */
export interface Found {
  readonly path: string;
  /** The major version in its name: 12 of libnvrtc.so.12. */
  readonly major: number;
  readonly origin: LibraryFolder['origin'] | 'environment';
}

/** `libNAME.so.MAJOR…` in a folder, the newest first. */
export function librariesIn(folder: string, name: string): { path: string; major: number }[] {
  const pattern = new RegExp(`^lib${name}\\.so\\.(\\d+)[.\\d]*$`);
  return list(folder)
    .flatMap((file) => {
      const match = pattern.exec(file);
      return match ? [{ path: join(folder, file), major: Number(match[1]) }] : [];
    })
    .sort((a, b) => b.major - a.major || a.path.length - b.path.length);
}

/** All libraries of that name, the most likely to be wanted first. */
export function findLibraries(
  name: string,
  packages: readonly string[],
  around: Surroundings = surroundings(),
): Found[] {
  const seen = new Set<string>();
  return places(packages, around).flatMap(({ folder, origin }) =>
    librariesIn(folder, name).flatMap((found): Found[] => {
      let real = found.path;
      try {
        real = realpathSync(found.path);
      } catch {
        return [];
      }
      if (seen.has(real)) return [];
      seen.add(real);
      return [{ ...found, origin }];
    }),
  );
}

export const isFolder = (path: string): boolean => {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
};
