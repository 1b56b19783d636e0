/** Two ranks with a GPU each exchange tensors by NCCL. */
import { deviceTests, noTwoGpus } from './device-tests.js';

deviceTests('cuda', noTwoGpus());
