/** Two ranks with a GPU each exchange tensors by NCCL. */
import { deviceTests, noTwoGpus, overlapTests } from './device-tests.js';

deviceTests('cuda', noTwoGpus());
overlapTests(noTwoGpus());
