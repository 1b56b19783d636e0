/** Every row of the case list on every device, by every way to the same value. */
import { DEVICES, forwardTests, reportMissing } from './case-runner.js';

for (const device of DEVICES) forwardTests(device);
reportMissing('forward');
