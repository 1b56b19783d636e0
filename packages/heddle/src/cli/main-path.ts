/** The file of the `heddle` command, for those who start it in a process of its own. */
import { fileURLToPath } from 'node:url';

export const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));
