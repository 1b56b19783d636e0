/** The gradients of every row of the case list, on every device. */
import { DEVICES, gradientTests, reportMissing } from './case-runner.js';

gradientTests(DEVICES);
reportMissing('gradients');
