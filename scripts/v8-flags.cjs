/** Loaded first by every Node process of the tests, those included that tests start: V8's flags for it (scripts/unit.mjs). */
require('node:v8').setFlagsFromString(process.env.V8_FLAGS ?? '');
