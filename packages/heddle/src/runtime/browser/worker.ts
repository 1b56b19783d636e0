/** The script of a Web Worker that is a thread of the CPU device: its first message says which. */
import type { WorkerData } from '../cpu/control.js';
import { takePart } from '../cpu/take-part.js';

const scope = globalThis as unknown as { onmessage: (event: { readonly data: WorkerData }) => void };
scope.onmessage = ({ data }) => takePart(data);
