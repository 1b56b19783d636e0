// For the runners whose `test` is a global: vitest and jest.
import { smoke } from './smoke.js';

test('heddle', smoke);
