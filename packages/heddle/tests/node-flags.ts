/** V8's flags of this process (scripts/unit.mjs), for the processes that a test starts: they end soon, too. */
export const NODE_FLAGS: readonly string[] = process.execArgv.filter((flag) => !flag.startsWith('--test'));
