/** A browser shows its scripts as they were written in its tools, and not to the page: places stay those of what was loaded. */
import type * as node from '../node/source-map.js';

export const pathOf: typeof node.pathOf = (url) => url;

export const sourceMapOf: typeof node.sourceMapOf = () => undefined;

export const writtenAt: typeof node.writtenAt = (file, line) => ({ file, line });

export const openInspector: typeof node.openInspector = () => undefined;
