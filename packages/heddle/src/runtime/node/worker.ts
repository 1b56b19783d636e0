/** The script of a Node worker that is a thread of the CPU device. */
import { workerData } from 'node:worker_threads';
import type { WorkerData } from '../cpu/control.js';
import { takePart } from '../cpu/take-part.js';

takePart(workerData as WorkerData);
