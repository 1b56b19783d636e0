/** A folder of models: what is in it, and which versions are loaded. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError } from 'heddle';
import { shown } from 'heddle/internal/core/arguments.js';
import { ServiceError } from '../errors.js';
import type { ServiceMetrics } from '../metrics.js';
import { modelKind } from './model-files.js';
import { ModelVersion, type ServiceLog } from './model-version.js';
import { byVersion, isModelName, isVersion } from './names.js';
import { readSettings } from './settings.js';

/** A line of the repository's index, as the protocol's extension has it. */
export interface IndexEntry {
  readonly name: string;
  readonly version: string;
  readonly state: 'READY' | 'LOADING' | 'UNLOADING' | 'UNAVAILABLE';
  /** Why it is in that state; empty if that needs no reason. */
  readonly reason: string;
}

/** What a repository is opened with. */
export interface RepositoryOptions {
  readonly folder: string;
  readonly device: string | undefined;
  readonly log: ServiceLog;
  readonly metrics: ServiceMetrics;
  /** How long versions that are unloaded may take to answer what they have accepted, in milliseconds. */
  readonly graceMs: number;
}

/** The versions of a model that are loaded or were asked for, by their names. */
type Versions = Map<
  string,
  ModelVersion | { readonly state: 'LOADING' | 'UNLOADING' | 'UNAVAILABLE'; readonly reason: string }
>;

export class Repository {
  readonly #options: RepositoryOptions;
  readonly #models = new Map<string, Versions>();
  /** Loading and unloading happen one after the other for each model. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(options: RepositoryOptions) {
    this.#options = options;
  }

  /** Load every model of the folder. One that cannot be loaded is logged, and the index says why. */
  async loadAll(): Promise<void> {
    const names = await this.#names();
    await Promise.all(
      names.map((name) =>
        this.load(name).catch((error: Error) =>
          this.#options.log.error({ model: name, reason: error.message }, 'the model cannot be loaded'),
        ),
      ),
    );
  }

  /** Load a model as its files and settings are now: versions that were loaded are replaced. @throws ServiceError */
  async load(name: string): Promise<void> {
    await this.#inTurn(name, async () => {
      const { folder, device, log, metrics, graceMs } = this.#options;
      const found = await this.#versionsOf(name);
      const settings = await readSettings(join(folder, name)).catch((error: Error) => {
        throw new ServiceError('invalid', withoutFolder(error.message, folder), { cause: error });
      });
      const chosen = chosenVersions(name, [...found.keys()], settings.versions);
      const versions = this.#models.get(name) ?? (new Map() as Versions);
      this.#models.set(name, versions);
      for (const [version, old] of [...versions])
        if (!chosen.includes(version)) {
          versions.delete(version);
          if (old instanceof ModelVersion) void old.close(graceMs);
        }
      const loading = chosen.map(async (version) => {
        const old = versions.get(version);
        if (!(old instanceof ModelVersion)) versions.set(version, { state: 'LOADING', reason: '' });
        try {
          const path = found.get(version)!;
          const own = await ModelVersion.load({ model: name, version, path, settings, device, log, metrics });
          versions.set(version, own);
          log.info({ model: name, version, platform: own.spec.platform }, 'the model is loaded');
          if (old instanceof ModelVersion) void old.close(graceMs);
        } catch (error) {
          const reason = withoutFolder((error as Error).message, folder);
          if (!(old instanceof ModelVersion)) versions.set(version, { state: 'UNAVAILABLE', reason });
          throw new ServiceError('invalid', reason, { cause: error });
        }
      });
      await Promise.allSettled(loading);
      await Promise.all(loading);
    });
  }

  /** @throws ServiceError if the model is not loaded */
  async unload(name: string): Promise<void> {
    await this.#inTurn(name, async () => {
      const versions = this.#models.get(name);
      if (!versions) throw notFound('loaded model', name, this.#models.keys());
      const loaded = [...versions];
      for (const [version] of loaded) versions.set(version, { state: 'UNLOADING', reason: '' });
      await Promise.all(
        loaded.map(async ([version, own]) => {
          if (own instanceof ModelVersion) await own.close(this.#options.graceMs);
          versions.set(version, { state: 'UNAVAILABLE', reason: 'unloaded' });
        }),
      );
      this.#models.delete(name);
      this.#options.log.info({ model: name }, 'the model is unloaded');
    });
  }

  /** All models of the folder by name, and the states of their versions. */
  async index(): Promise<readonly IndexEntry[]> {
    const entries: IndexEntry[] = [];
    for (const name of [...new Set([...(await this.#names()), ...this.#models.keys()])].sort()) {
      const known = this.#models.get(name);
      const found = await this.#versionsOf(name).catch(() => new Map<string, string>());
      for (const version of [...new Set([...found.keys(), ...(known?.keys() ?? [])])].sort(byVersion)) {
        const own = known?.get(version);
        entries.push({ name, version, ...stateOf(own) });
      }
    }
    return entries;
  }

  /** The loaded version that is asked for, or the highest. @throws ServiceError if there is none */
  find(name: string, version: string | undefined): ModelVersion {
    const versions = this.#models.get(name);
    if (!versions) throw notFound('model', name, this.#models.keys());
    const asked = version === undefined || version === '' ? highest(versions) : version;
    const own = versions.get(asked);
    if (own instanceof ModelVersion) return own;
    if (!own) throw notFound(`loaded version of '${name}' called`, asked, versions.keys());
    throw new ServiceError(
      'unavailable',
      `version ${asked} of '${name}' is ${own.state}${own.reason && `: ${own.reason}`}.`,
    );
  }

  /** The loaded versions of a model, the highest first. */
  loadedVersions(name: string): readonly string[] {
    const versions = this.#models.get(name) ?? new Map();
    return [...versions]
      .flatMap(([version, own]) => (own instanceof ModelVersion ? version : []))
      .sort(byVersion);
  }

  /** All loaded versions, by the names of their models. */
  *loaded(): Generator<ModelVersion> {
    for (const [, versions] of [...this.#models].sort(([a], [b]) => (a < b ? -1 : 1)))
      for (const own of versions.values()) if (own instanceof ModelVersion) yield own;
  }

  /** Whether nothing is being loaded, and all that is loaded can compute. */
  get isReady(): boolean {
    return [...this.#models.values()].every((versions) =>
      [...versions.values()].every((own) =>
        own instanceof ModelVersion ? own.isReady : own.state !== 'LOADING',
      ),
    );
  }

  /** Answer what has been accepted, and end all workers. */
  async close(graceMs: number): Promise<void> {
    await Promise.all([...this.loaded()].map((own) => own.close(graceMs)));
  }

  async #inTurn(name: string, work: () => Promise<void>): Promise<void> {
    const before = this.#turns.get(name) ?? Promise.resolve();
    const own = before.catch(() => {}).then(work);
    this.#turns.set(name, own);
    try {
      await own;
    } finally {
      if (this.#turns.get(name) === own) this.#turns.delete(name);
    }
  }

  /** The models of the folder. */
  async #names(): Promise<readonly string[]> {
    const { folder } = this.#options;
    try {
      const entries = await readdir(folder, { withFileTypes: true });
      const isFolder = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink());
      const names = isFolder
        .map(({ name }) => name)
        .filter(isModelName)
        .sort();
      const hasModel = await Promise.all(
        names.map(async (name) => (await foldersOf(join(folder, name))).size > 0),
      );
      return names.filter((_, i) => hasModel[i]);
    } catch (error) {
      throw new FileError(folder, `cannot be read as a folder of models (${(error as Error).message}).`, {
        cause: error,
      });
    }
  }

  /** The folders of a model's versions. @throws ServiceError if there is no such model */
  async #versionsOf(name: string): Promise<ReadonlyMap<string, string>> {
    const found = isModelName(name)
      ? await foldersOf(join(this.#options.folder, name))
      : new Map<string, string>();
    if (found.size === 0) throw notFound('model', name, await this.#names());
    return found;
  }
}

/** The versions in a model's folder, by their names. A folder that is a model itself has the version 1. */
async function foldersOf(path: string): Promise<Map<string, string>> {
  if (modelKind(path)) return new Map([['1', path]]);
  const entries = await readdir(path).catch(() => []);
  return new Map(
    entries
      .filter((name) => isVersion(name) && modelKind(join(path, name)) !== undefined)
      .map((name) => [name, join(path, name)]),
  );
}

function chosenVersions(
  name: string,
  found: readonly string[],
  wanted: number | readonly string[],
): readonly string[] {
  const sorted = [...found].sort(byVersion);
  if (typeof wanted === 'number') return sorted.slice(0, wanted);
  const missing = wanted.filter((version) => !found.includes(version));
  if (missing.length > 0)
    throw new ServiceError(
      'invalid',
      `the settings of '${name}' name the versions ${missing.join(', ')}, its folder has ${sorted.join(', ')}.`,
    );
  return wanted;
}

/** The highest version, of those that are loaded if there are any. */
function highest(versions: Versions): string {
  const sorted = [...versions].sort(([a], [b]) => byVersion(a, b));
  return (sorted.find(([, own]) => own instanceof ModelVersion) ?? sorted[0]!)[0];
}

const stateOf = (
  own: ModelVersion | { readonly state: IndexEntry['state']; readonly reason: string } | undefined,
): Pick<IndexEntry, 'state' | 'reason'> => {
  if (!own) return { state: 'UNAVAILABLE', reason: 'not loaded' };
  if (!(own instanceof ModelVersion)) return own;
  return own.isReady
    ? { state: 'READY', reason: '' }
    : { state: 'UNAVAILABLE', reason: 'its instances are being restarted' };
};

const notFound = (what: string, name: string, known: Iterable<string>): ServiceError =>
  new ServiceError('not-found', `there is no ${what} ${shown(name)}. There ${listed([...known])}.`);

const listed = (names: readonly string[]): string =>
  names.length === 0 ? 'is none' : names.length === 1 ? `is ${names[0]}` : `are ${names.join(', ')}`;

/** Clients need not know where the service keeps its models. */
const withoutFolder = (message: string, folder: string): string => message.replaceAll(folder, '…');
