/** A rank of `heddle bench collectives`. The first prints what it has measured. */
import { findMpi } from 'heddle/internal/distributed/mpi/find.js';
import { MpiTransport, openMpiTransport } from 'heddle/internal/distributed/mpi/transport.js';
import { openTcpTransport } from 'heddle/internal/distributed/tcp/transport.js';
import type { Transport } from 'heddle/internal/distributed/transport.js';
import { openLibrary, symbolAddress } from 'heddle/internal/runtime/cuda/driver/native.js';

export interface RankSettings {
  readonly by: 'tcp' | 'mpi';
  readonly ranks: number;
  readonly sizes: readonly number[];
}

export interface RankReport {
  readonly by: 'tcp' | 'mpi' | 'MPI_Allreduce' | 'nccl graph' | 'torch' | 'torch graph';
  readonly bytes: number;
  readonly milliseconds: readonly number[];
}

const settings = JSON.parse(process.argv[2]!) as RankSettings;

/** What ranks have left, by its key. The parent passes messages on to all. */
const left = new Map<string, string>();
const waiting: (() => void)[] = [];
if (settings.by === 'tcp')
  process.on('message', ({ key, value }: { key: string; value: string }) => {
    left.set(key, value);
    for (const check of waiting.splice(0)) check();
  });

const openTcp = (rank: number): Promise<Transport> =>
  openTcpTransport(
    {
      ...{ rank, worldSize: settings.ranks },
      set: async (key, value) => void process.send!({ key, value }),
      async get(key) {
        for (;;) {
          const value = left.get(key);
          if (value !== undefined) return value;
          await new Promise<void>((resolve) => waiting.push(resolve));
        }
      },
    },
    { host: '127.0.0.1' },
  );

type AllReduce = (from: Uint8Array, to: Uint8Array) => void;

/** MPI's own, with the constants of Open MPI; the ABI of MPICH has numbers for them. */
function ownAllReduce(): AllReduce {
  const [found] = findMpi();
  const { path, abi } = found!;
  const open = abi === 'openmpi';
  const handle = open ? 'address' : 'i32';
  const library = openLibrary(path, {
    MPI_Allreduce: ['memory', 'memory', 'i32', handle, handle, handle],
  });
  const [float, sum, world] = open
    ? ['ompi_mpi_float', 'ompi_mpi_op_sum', 'ompi_mpi_comm_world'].map((name) => symbolAddress(path, name))
    : [0x4c00040a, 0x58000003, 0x44000000];
  return (from, to) => {
    const status = library.MPI_Allreduce(from, to, from.length / 4, float!, sum!, world!);
    if (status !== 0) throw new Error(`MPI_Allreduce answers with ${status}`);
  };
}

const transport =
  settings.by === 'tcp' ? await openTcp(Number(process.argv[3])) : openMpiTransport(process.env);
const index = transport instanceof MpiTransport ? transport.rank : Number(process.argv[3]);
const peers = { ranks: Array.from({ length: settings.ranks }, (_, r) => r), index };
const ways: [RankReport['by'], AllReduce][] = [
  [
    settings.by,
    (from, to) =>
      transport.allReduce(peers, 'sum', { bytes: from, dtype: 'f32' }, { bytes: to, dtype: 'f32' }),
  ],
];
if (settings.by === 'mpi') ways.push(['MPI_Allreduce', ownAllReduce()]);

const reports: RankReport[] = [];
for (const bytes of settings.sizes) {
  const [from, to] = [0, 1].map(() => new Float32Array(new SharedArrayBuffer(bytes))) as [
    Float32Array,
    Float32Array,
  ];
  for (let i = 0; i < from.length; i++) from[i] = Math.random() - 0.5;
  const samples = ways.map((): number[] => []);
  const rounds = 2 + (bytes <= 1e5 ? 200 : bytes <= 1e7 ? 30 : 10);
  for (let round = 0; round < rounds; round++)
    for (const [w, [, allReduce]] of ways.entries()) {
      transport.barrier(peers);
      const start = performance.now();
      allReduce(new Uint8Array(from.buffer), new Uint8Array(to.buffer));
      if (round >= 2) samples[w]!.push(performance.now() - start);
    }
  for (const [w, [by]] of ways.entries()) reports.push({ by, bytes, milliseconds: samples[w]! });
}
if (index === 0) process.stdout.write(JSON.stringify(reports));
await transport.close();
if (process.connected) process.disconnect();
