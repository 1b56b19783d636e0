import { test } from 'node:test';
import { smoke } from './smoke.js';

test('heddle', smoke);
