/** The images of a folder with a folder for each class. */
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { DataError } from 'heddle';
import { IMAGE_ENDINGS } from './decode.js';

/** Images, and the class of each. */
export interface FoundImages {
  /** The names of the classes, sorted. */
  readonly classNames: readonly string[];
  /** Relative to the folder, class by class, sorted. */
  readonly files: readonly string[];
  readonly labels: Int32Array;
}

/** Images that sharp cannot decode: to leave them out without saying so would lose data. */
const UNREADABLE = ['.bmp', '.heic', '.heif', '.ppm', '.pgm', '.jp2', '.psd'];

const readable: readonly string[] = IMAGE_ENDINGS;

/**
 * Images of each class, however deep in its folder. Hidden files and folders, and files of other kinds, are left out.
 * @param classNames those that there may be, in the order of their labels; default: all that there are, sorted
 * @throws DataError for a folder without classes, a class without images or one that is not expected, classes that
 * differ only by case, folders that cannot be read, and links that lead in circles
 */
export async function findImages(root: string, classNames?: readonly string[]): Promise<FoundImages> {
  const found = await foldersIn(root);
  if (found.length === 0)
    throw new DataError(
      `${root}: has no folder of a class. Expected a folder for each class with its images: ${join(root, 'cat', '1.jpg')}.`,
    );
  requireDistinct(root, found);
  if (classNames) requireExpected(root, found, classNames);
  const names = classNames ?? found;
  const files: string[] = [];
  const labels: number[] = [];
  for (const [label, name] of names.entries()) {
    if (!found.includes(name)) continue;
    const images = await imagesIn(root, name, []);
    if (images.length === 0)
      throw new DataError(
        `${join(root, name)}: has no images, and a class needs at least one (${readable.join(', ')}). Add images, or remove the folder.`,
      );
    for (const image of images.sort()) {
      files.push(image);
      labels.push(label);
    }
  }
  return { classNames: names, files, labels: Int32Array.from(labels) };
}

/** The names of the folders in a folder, sorted. @throws DataError */
export async function foldersIn(root: string): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await entriesOf(root)) if (await isFolder(root, entry)) names.push(entry.name);
  return names.sort();
}

/** What is not hidden. @throws DataError */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.filter(({ name }) => !name.startsWith('.'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reasons: Readonly<Record<string, string>> = {
      ENOENT: 'no such folder. Check the path.',
      ENOTDIR: 'is not a folder. Expected a folder with a folder for each class.',
      EACCES: 'no permission to read this folder. Change its mode or owner.',
    };
    throw new DataError(`${folder}: ${reasons[code ?? ''] ?? `cannot be read (${message}).`}`, {
      cause: error,
    });
  }
}

/** Also by a link. @throws DataError for a link that leads nowhere, or in a circle */
async function isFolder(folder: string, entry: Dirent): Promise<boolean> {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  const path = join(folder, entry.name);
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    const why =
      (error as NodeJS.ErrnoException).code === 'ELOOP'
        ? 'leads in a circle'
        : 'leads to nothing that can be read';
    throw new DataError(`${path}: this link ${why}. Remove it.`, { cause: error });
  }
}

/** @param above where the folders around it really are */
async function imagesIn(root: string, folder: string, above: readonly string[]): Promise<string[]> {
  const path = join(root, folder);
  const place = await realpath(path);
  if (above.includes(place))
    throw new DataError(
      `${path}: this link leads back to ${place}, which it is in: a circle. Remove the link.`,
    );
  const images: string[] = [];
  for (const entry of await entriesOf(path)) {
    const name = join(folder, entry.name);
    const ending = extname(entry.name).toLowerCase();
    if (await isFolder(path, entry)) images.push(...(await imagesIn(root, name, [...above, place])));
    else if (readable.includes(ending)) images.push(name);
    else if (UNREADABLE.includes(ending))
      throw new DataError(
        `${join(root, name)}: images of this kind cannot be decoded. Convert it to PNG or JPEG, or remove it.`,
      );
  }
  return images;
}

function requireDistinct(root: string, names: readonly string[]): void {
  const seen = new Map<string, string>();
  for (const name of names) {
    const plain = name.normalize('NFC').toLowerCase();
    const other = seen.get(plain);
    if (other !== undefined)
      throw new DataError(
        `${root}: the classes '${other}' and '${name}' differ only by case. Give them distinct names, or move the images into one folder.`,
      );
    seen.set(plain, name);
  }
}

function requireExpected(root: string, found: readonly string[], expected: readonly string[]): void {
  const unknown = found.find((name) => !expected.includes(name));
  if (unknown !== undefined)
    throw new DataError(
      `${join(root, unknown)}: '${unknown}' is not one of the classes, which are ${expected.join(', ')}. Rename or remove the folder.`,
    );
}
