/**
 * Random programs over nearly all ops: values and gradients, computed in every way there is, against an error analysis in
 * f64 (programs/tape.ts). What fails is printed as JSON: that goes into programs/found.json once it is mended.
 */
import { readFileSync } from 'node:fs';
import { setPrecision, useDevice } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';
import { property } from '../property.js';
import { Programs, randomLong, randomMachine, randomProgram, randomTraining } from './generate.js';
import { parseFound } from './program.js';
import { checkMachine, checkProgram } from './run.js';

process.env.HEDDLE_CHECK = '1';
setPrecision({ matmul: 'f32', conv: 'f32' });

const found = parseFound(
  readFileSync(new URL('../../../tests/programs/found.json', import.meta.url), 'utf8'),
);

/** What is checked, how many programs of it here, and its share of the fuzzer's time. */
const KINDS = [
  {
    name: 'random programs',
    make: randomProgram,
    check: checkProgram,
    found: found.programs,
    many: 60,
    share: 20,
  },
  {
    name: 'random programs with long axes',
    make: randomLong,
    check: checkProgram,
    found: [],
    many: 1,
    share: 2,
  },
  {
    name: 'random programs that assign states',
    make: randomMachine,
    check: checkMachine,
    found: found.machines,
    many: 20,
    share: 5,
  },
  {
    name: 'random programs that train parameters',
    make: randomTraining,
    check: checkMachine,
    found: found.trainings,
    many: 20,
    share: 5,
  },
];

for (const device of DEVICES)
  for (const { name, make, check, found, many, share } of KINDS)
    property(
      `${device}: ${name}`,
      [new Programs(make)],
      async (program) => {
        useDevice(device);
        await check(program);
      },
      {
        runs: Math.ceil(device === 'cpu' ? many : many / 2.5),
        share,
        found: found.map((program) => [program]),
      },
    );
