/** The file of the `heddle` command, for those who start it in its own process. */
import { fileURLToPath } from 'node:url';

export const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));
