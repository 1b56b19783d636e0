import { smoke } from './smoke.js';

await smoke();
