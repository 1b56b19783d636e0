/** Ranks on the CPU exchange tensors. */
import { deviceTests } from './device-tests.js';

deviceTests('cpu', false);
