/** The gradients of every row of the case list, on every device. */
import { DEVICES, gradientTests } from './case-runner.js';

gradientTests(DEVICES);
