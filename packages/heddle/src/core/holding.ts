/** Keeps the collector away from what a wait depends on. */

/** Owners of what work under way is using: memory, events. */
const held = new Set<object>();

/**
 * The result of `work`. Until it is there the collector leaves `owner` alone, and so what the work was given of it: a
 * handle or a buffer that is freed when its owner is garbage.
 */
export async function holding<T>(owner: object, work: Promise<T>): Promise<T> {
  held.add(owner);
  try {
    return await work;
  } finally {
    held.delete(owner);
  }
}
