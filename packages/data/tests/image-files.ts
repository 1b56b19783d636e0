/** Folders of images for tests. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { crc32, deflateSync } from 'node:zlib';
import sharp from 'sharp';

/** An empty folder that is gone after the tests of this file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-data-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels?: 1 | 2 | 3 | 4;
  /** The byte of a channel at a place. */
  readonly at?: (x: number, y: number, channel: number) => number;
}

export function pixelsOf({ width, height, channels = 3, at = () => 128 }: Picture): Uint8Array {
  const pixels = new Uint8Array(width * height * channels);
  for (let i = 0; i < pixels.length; i++) {
    const place = Math.floor(i / channels);
    pixels[i] = at(place % width, Math.floor(place / width), i % channels);
  }
  return pixels;
}

/** As its path ends: .jpg, .png or .webp, the latter without loss. */
export async function writePicture(path: string, picture: Picture): Promise<string> {
  mkdirSync(dirname(path), { recursive: true });
  const { width, height, channels = 3 } = picture;
  const image = sharp(pixelsOf(picture), { raw: { width, height, channels } });
  await (channels < 3 ? image.toColourspace('b-w') : image)
    .webp({ lossless: true, force: false })
    .toFile(path);
  return path;
}

/** A PNG of that many black pixels, in as few bytes as its header and a row take. */
export function claimedPng(width: number, height: number): Uint8Array {
  const chunk = (type: string, data: Uint8Array): Buffer => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
    const frame = Buffer.alloc(8);
    frame.writeUInt32BE(data.length, 0);
    frame.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const data = deflateSync(new Uint8Array(width + 1));
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
