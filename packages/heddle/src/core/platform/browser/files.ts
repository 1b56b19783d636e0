/** A browser has no files: what is read is fetched by its URL, and nothing can be written. */
import type * as node from '../node/files.js';

const refuse = (): never => {
  throw new Error(
    'a browser has no file system; encode functions such as encodeSafetensors give the bytes to save',
  );
};
const refuseAsync = async (): Promise<never> => refuse();

/** A function of Node's for files, which fails. */
type Refused<F> = F & (() => never);

export const accessSync: Refused<typeof node.accessSync> = refuse as never;
export const appendFileSync: Refused<typeof node.appendFileSync> = refuse as never;
export const mkdirSync: Refused<typeof node.mkdirSync> = refuse as never;
export const readdirSync: Refused<typeof node.readdirSync> = refuse as never;
export const readFileSync: Refused<typeof node.readFileSync> = refuse as never;
export const renameSync: Refused<typeof node.renameSync> = refuse as never;
export const rmSync: Refused<typeof node.rmSync> = refuse as never;
export const truncateSync: Refused<typeof node.truncateSync> = refuse as never;
export const utimesSync: Refused<typeof node.utimesSync> = refuse as never;
export const writeFileSync: Refused<typeof node.writeFileSync> = refuse as never;
export const open: Refused<typeof node.open> = refuseAsync as never;
export const rename: Refused<typeof node.rename> = refuseAsync as never;
export const unlink: Refused<typeof node.unlink> = refuseAsync as never;

/** Nothing is there to see. */
export const existsSync = (): boolean => false;
export const statSync = (): undefined => undefined;

export const hasFileSystem = false;

export const homeFolder: typeof node.homeFolder = () => '';

export const isReadable: typeof node.isReadable = async (url) =>
  (await fetch(url, { method: 'HEAD' }).catch(() => undefined))?.ok === true;

/** What a server gives for a URL, which may be relative to the page's. */
export async function readFile(url: string): Promise<Uint8Array> {
  const response = await fetch(url);
  if (response.ok) return new Uint8Array(await response.arrayBuffer());
  throw Object.assign(new Error(`the server answers ${response.status} ${response.statusText}`.trimEnd()), {
    ...(response.status === 404 && { code: 'ENOENT' }),
  });
}

/** All of it is fetched when it is opened. */
export async function openToRead(url: string): Promise<node.ReadableFile> {
  const bytes = await readFile(url);
  const read = async (into: Uint8Array, position: number): Promise<number> => {
    into.set(bytes.subarray(position, position + into.length));
    return into.length;
  };
  return { size: bytes.length, read, close: async () => {} };
}
