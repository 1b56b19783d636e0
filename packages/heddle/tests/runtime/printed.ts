/** What kernels print, for tests: lines that begin so are kept, all else goes its way, as the test runner's reports do. */
export async function printed(start: string, body: () => unknown): Promise<string[]> {
  const lines: string[] = [];
  const { write } = process.stdout;
  process.stdout.write = function (this: typeof process.stdout, ...args: Parameters<typeof write>) {
    const [text] = args;
    if (typeof text !== 'string' || !text.startsWith(start)) return write.apply(this, args);
    lines.push(text);
    return true;
  } as typeof write;
  try {
    await body();
  } finally {
    process.stdout.write = write;
  }
  return lines;
}
