/**
 * Data that a model keeps in files beside it. A model names those files, and is not to be trusted: only files within its own
 * folder are read, also after symbolic links are followed, and memory is taken once the file is known to have the bytes.
 */
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { isAbsolute, join, relative, sep } from 'node:path';
import { FileError } from 'heddle';
import type { TensorProto } from '../protobuf/onnx_pb.js';

/** Reads external data of one model; each file is opened once. */
export class ExternalData {
  readonly #path: string;
  readonly #folder: string | undefined;
  readonly #files = new Map<string, { readonly handle: FileHandle; readonly size: number }>();

  /** @param path of the model, for messages @param folder the model's own */
  constructor(path: string, folder: string | undefined) {
    this.#path = path;
    this.#folder = folder;
  }

  /**
   * The bytes of a tensor.
   * @param expected how many its type and shape ask for
   * @throws FileError for a file outside the model's folder, missing, or shorter than what is asked of it
   */
  async read(tensor: TensorProto, expected: number): Promise<Uint8Array> {
    const entries = new Map(tensor.externalData.map(({ key, value }) => [key, value]));
    const location = entries.get('location') ?? '';
    const offset = this.#count(tensor.name, 'offset', entries.get('offset') ?? '0');
    const length = this.#count(tensor.name, 'length', entries.get('length') ?? String(expected));
    if (length !== expected)
      throw this.#error(
        `the tensor '${tensor.name}' has ${length} bytes of external data, its type and shape ask for ${expected}.`,
      );
    const { handle, size } = await this.#file(tensor.name, location);
    if (offset + length > size)
      throw this.#error(
        `the tensor '${tensor.name}' is at bytes ${offset} to ${offset + length} of '${location}', which has ${size}. ` +
          'Copy that file again.',
      );
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await handle.read(bytes, done, Math.min(length - done, 2 ** 30), offset + done);
      if (bytesRead === 0) throw this.#error(`'${location}' became shorter while it was read.`);
      done += bytesRead;
    }
    return bytes;
  }

  /** Close the files. */
  async close(): Promise<void> {
    const files = [...this.#files.values()];
    this.#files.clear();
    for (const { handle } of files) await handle.close();
  }

  #count(tensor: string, what: string, text: string): number {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value))
      throw this.#error(
        `the tensor '${tensor}' has external data of ${what} '${text.slice(0, 40)}', must be a whole number.`,
      );
    return value;
  }

  async #file(tensor: string, location: string) {
    const known = this.#files.get(location);
    if (known) return known;
    const path = await this.#resolve(tensor, location);
    let handle: FileHandle | undefined;
    try {
      handle = await open(path, 'r');
      const found = await handle.stat();
      if (!found.isFile()) throw new Error('it is no file');
      const file = { handle, size: found.size };
      this.#files.set(location, file);
      return file;
    } catch (error) {
      await handle?.close();
      throw this.#error(`'${location}', with the tensor '${tensor}', cannot be read: ${messageOf(error)}.`);
    }
  }

  /** The real path of a file within the model's folder. */
  async #resolve(tensor: string, location: string): Promise<string> {
    const rule = `The model keeps the tensor '${tensor}' there: only files within the model's folder are read.`;
    const shown = `'${location.slice(0, 200)}'`;
    if (this.#folder === undefined)
      throw this.#error(
        `its data are in the file ${shown}. Load the model by its path instead of by its bytes.`,
      );
    const parts = location.split(/[\\/]/);
    if (location === '' || location.includes('\0') || isAbsolute(location) || /^[A-Za-z]:/.test(location))
      throw this.#error(`external data at ${shown}, must be a relative path. ${rule}`);
    if (parts.includes('..')) throw this.#error(`external data at ${shown} leave the folder. ${rule}`);
    let folder: string;
    let real: string;
    try {
      folder = await realpath(this.#folder === '' ? '.' : this.#folder);
      real = await realpath(join(folder, location));
    } catch (error) {
      throw this.#error(`${shown}, with the tensor '${tensor}', cannot be read: ${messageOf(error)}.`);
    }
    const within = relative(folder, real);
    if (within === '' || within === '..' || within.startsWith(`..${sep}`) || isAbsolute(within))
      throw this.#error(`${shown} is a link that leaves the folder. ${rule} Copy the file there.`);
    return real;
  }

  #error(message: string): FileError {
    return new FileError(this.#path, message);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
