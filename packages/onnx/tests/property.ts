/** `property`, as the library's tests have it (packages/heddle/tests/property.ts). */
type Property = typeof import('../../heddle/dist/tests/property.js');

const built = new URL('../../../heddle/dist/tests/property.js', import.meta.url);
export const { property }: Property = await import(built.href);
