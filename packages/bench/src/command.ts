/** The command `heddle bench`. */

import { type Command, Option } from 'commander';
import { DEVICE_HELP, positiveNumber, wholeNumber, wholeNumbers, words } from 'heddle/internal/cli/values.js';
import type { BenchCollectivesOptions } from './collectives.js';
import type { BenchDataOptions } from './data.js';
import type { DeviceBench } from './device.js';
import type {
  BenchAccuracyOptions,
  BenchAllOptions,
  BenchCpuOptions,
  BenchDeviceOptions,
  BenchFeedOptions,
  BenchInferenceOptions,
  BenchLadderOptions,
  BenchMnistOptions,
  BenchServeOptions,
  BenchStartOptions,
  BenchVendorOptions,
} from './run.js';
import type { BenchScalingOptions } from './scaling.js';

const CPU_EXAMPLES = `
Cases:
  mlp, lenet5, cnn              a training step, batch 64, on random images
  matmul                        A·B, A·Bᵀ, Aᵀ·B of 512, 1024, 2048; one of them: matmul-1024-abt
  softmax, elementwise          of 16 M numbers
  startup                       from the start of the process to the end of the first step of mlp
  memory                        the most that training cnn on MNIST takes

Examples:
  $ heddle bench cpu
  $ heddle bench cpu --only cnn,matmul-1024 --threads 2
Beside PyTorch, in a clone of the repository:
  $ python3 node_modules/heddle-bench/torch_cpu.py > torch.jsonl
  $ heddle bench cpu --peer torch.jsonl`;

const ACCURACY_EXAMPLES = `
Examples:
  $ heddle bench accuracy
  $ heddle bench accuracy --only cnn,cnn:reference --seeds 0,1,2`;

const PEER_EXAMPLE = (which: string, script = 'torch_gpu.py'): string =>
  `Beside PyTorch, in a clone of the repository:
  $ python3 node_modules/heddle-bench/${script} > torch.jsonl
  $ heddle bench ${which} --peer torch.jsonl`;

const DEVICE_BENCHES: Readonly<Record<DeviceBench, { summary: string; description: string; after: string }>> =
  {
    kernels: {
      summary: 'single kernels against the ceilings of the device: about a minute',
      description:
        'Device time of matrix products, convolutions, reductions and the like, their rates, and what share that is of ' +
        'the least time that copying and the fastest matrix product of the same run allow.',
      after: `
Cases (smaller on the CPU):
  matmul                        f32, tf32, bf16, f16 of 512 to 8192; one of them: matmul-bf16-4096
  copy, softmax, layernorm,     of 8192² numbers
  relu, transpose, sum, columnsum
  conv, pool, batchnorm         convolutions and batch norm forward and backward, pooling
  normal, uniform               random numbers

Examples:
  $ heddle bench kernels
  $ heddle bench kernels --only matmul-f32,softmax --svg kernels.svg
${PEER_EXAMPLE('kernels')}`,
    },
    layers: {
      summary: 'layers, losses, sorting and the like, and optimizers: some minutes',
      description:
        'Device time of layers and losses with their gradients, of ops such as sort and cumsum, of reductions and norms ' +
        'along each axis of a matrix, and of the update of 25 million parameters by each optimizer, with the share of the copy rate that it reaches.',
      after: `
Examples:
  $ heddle bench layers
  $ heddle bench layers --only LSTM,Adam,crossEntropy
  $ heddle bench layers --only copy,softmax,layernorm,logsumexp
${PEER_EXAMPLE('layers', 'torch_layers.py')}`,
    },
    large: {
      summary: 'products and convolutions of networks that fill a GPU: some minutes',
      description:
        'Device time of large matrix products and of every layer of resnet18, resnet50 and depthwise networks, forward and both ' +
        'gradients, by own kernels.',
      after: `
Examples:
  $ heddle bench large
  $ heddle bench large --only matmul,gelu,conv-bf16-resnet18
${PEER_EXAMPLE('large', 'torch_large.py')}`,
    },
    train: {
      summary:
        'training steps of mlp, cnn and lenet5, on a GPU of resnet18 and gpt, too: about half a minute',
      description:
        'Steady state of a training step: device time, wall-clock time in a loop, time of the host, launches. ' +
        'resnet50 and gpt2 (124 M), which take minutes and tens of GB of a GPU, are measured where --only names them.',
      after: `
Examples:
  $ heddle bench train
  $ heddle bench train --only cnn,mlp-64 --device cpu
  $ heddle bench train --only resnet50,gpt2
${PEER_EXAMPLE('train')}`,
    },
  };

const LADDERS = {
  matmul: {
    summary: "the ladder of matrix products on a GPU, rung by rung, compared with the vendor's library",
    description:
      'From three nested loops to shared memory, registers, vectors, asynchronous copies and tensor cores: what each ' +
      'idea gains, and what share that is of the fastest peer.',
    sizes: '1024,4096',
    what: 'square matrices',
    least: 128,
    example: "--sizes 8192 --only 'warp tiles,pipeline,matmul'",
    rungs:
      'naive · coalesced · shared · 1-d registers · 2-d registers · vectors ·\n  no bank conflicts · double buffer · ' +
      'warp tiles · pipeline ·\n  mma · wgmma · ring · producer · cluster · persistent (bf16, on Hopper) ·\n  ' +
      'matmul (as tuned: f32, and tensor cores in tf32, bf16 and f16)',
  },
  conv: {
    summary: "the ladder of convolutions on a GPU, rung by rung, compared with the vendor's library",
    description:
      'A 3×3 convolution of 64 images of 32×32, from nested loops to im2col, implicit products, Winograd and tensor cores: ' +
      'what each idea gains, and what share that is of cuDNN.',
    sizes: '64,256',
    what: 'channels, as many in as out',
    least: 1,
    example: '--sizes 128 --only naive,winograd,conv2d',
    rungs:
      'naive · im2col + product · implicit product · image tile · winograd · tensor cores ·\n  ' +
      'conv2d (as tuned: f32, and tensor cores in tf32 and bf16) · conv2d, channels last (tf32, bf16)',
  },
  transpose: {
    summary: 'the ladder of transposes on a GPU, rung by rung, compared with a copy',
    description:
      'From an element a thread to tiles in shared memory and squares in registers: what each idea gains, and what ' +
      'share that is of copying as many bytes.',
    sizes: '8192',
    what: 'square matrices',
    least: 128,
    example: '--only tiled,padded --svg transpose.svg',
    rungs: 'naive · tiled · padded · squares16 · squares8 · squares4 · x.transpose()',
  },
} as const;

/** @param ended is told the exit code when the command has run */
/** What the benches of one device take, each with a file of figures and its own chart. */
const onDevice = (command: Command, which: string): Command =>
  command
    .option('--peer <file>', 'figures of another library to compare with, as torch_gpu.py prints them')
    .option('--device <name>', DEVICE_HELP)
    .option('--json <file>', `where to write (default: bench/results/${which}-<date>.json)`)
    .option('--svg <file>', 'where to draw a chart (default: none)');

export function addBench(root: Command, ended: (exitCode: number) => void): void {
  const bench = root
    .command('bench')
    .summary('measure speed, or the accuracy that training reaches')
    .description('Measure, print a table, and write the figures and how they were measured as JSON.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle bench cpu\n  $ heddle bench kernels --vendor\n  $ heddle bench accuracy --only mlp',
    );
  bench
    .command('cpu')
    .summary('training steps, matmul, softmax, start-up and memory of the CPU: about two minutes')
    .description(
      'Measure the CPU device with each number of threads, matmul without fused multiply-add, too: medians of repeated ' +
        'runs after a warm-up, on random data, in processes that take turns.',
    )
    .option('--only <list>', 'cases or their first words, separated by commas (default: all)', words)
    .option('--threads <list>', 'numbers of threads (default: 1 and one per core)', wholeNumbers(1, 256))
    .option('--seconds <n>', 'time for each case in each round (default: 0.6)', positiveNumber)
    .option('--rounds <n>', 'processes for each setting (default: 3)', wholeNumber(1))
    .option('--peer <file>', 'figures of another library to compare with, as torch_cpu.py prints them')
    .option('--json <file>', 'where to write (default: bench/results/cpu-<date>.json)')
    .addHelpText('after', CPU_EXAMPLES)
    .action(async (options: BenchCpuOptions) => {
      const { benchCpu } = await import('./run.js');
      ended(await benchCpu(options));
    });
  bench
    .command('accuracy')
    .summary('what the networks reach on the test images: some minutes')
    .description('Train the networks on images by their recipes, and test them after every epoch.')
    .option(
      '--only <list>',
      'networks, or a recipe as cnn:reference, separated by commas (default: all)',
      words,
    )
    .option('-d, --data <set>', 'mnist, fashion-mnist, or a folder with four IDX files (default: mnist)')
    .option('-e, --epochs <n>', 'times through the training data (default: as in the recipe)', wholeNumber(1))
    .option('--seeds <list>', 'one run each, separated by commas (default: 0)', wholeNumbers(0))
    .option('--limit <n>', 'use only the first n training examples', wholeNumber(1))
    .option('--device <name>', DEVICE_HELP)
    .option('--json <file>', 'where to write (default: bench/results/accuracy-<date>.json)')
    .addHelpText('after', ACCURACY_EXAMPLES)
    .action(async (options: BenchAccuracyOptions) => {
      const { benchAccuracy } = await import('./run.js');
      ended(await benchAccuracy(options));
    });
  for (const [which, { summary, description, after }] of Object.entries(DEVICE_BENCHES)) {
    const command = bench
      .command(which)
      .summary(summary)
      .description(description)
      .option('--only <list>', 'cases or their first words, separated by commas (default: all)', words);
    onDevice(command, which)
      .addHelpText('after', after)
      .action(async (options: BenchDeviceOptions) => {
        const { benchDevice } = await import('./run.js');
        ended(await benchDevice(which as DeviceBench, options));
      });
    if (which === 'kernels')
      command.option('--vendor', "measure the vendor's libraries, too, where there are any");
  }
  addLadders(bench, ended);
  bench
    .command('mnist')
    .summary('whole runs on MNIST: training and process, with a cold and a warm cache of kernels')
    .description(
      'Start heddle train on MNIST several times as a user does, first with an empty cache of compiled kernels, and ' +
        'take the time of the training and of the whole process.',
    )
    .option('--only <list>', 'cnn-reference or lenet5 (default: both)', words)
    .option('--device <name>', DEVICE_HELP)
    .option('-e, --epochs <n>', 'times through the training data (default: as in the recipe)', wholeNumber(1))
    .option('--limit <n>', 'use only the first n training examples', wholeNumber(1))
    .option('--warm-runs <n>', 'processes that find all kernels in the cache (default: 3)', wholeNumber(0))
    .option('--json <file>', 'where to write (default: bench/results/mnist-<date>.json)')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle bench mnist\n  $ heddle bench mnist --only lenet5 --warm-runs 10',
    )
    .action(async (options: BenchMnistOptions) => {
      const { benchMnist } = await import('./run.js');
      ended(await benchMnist(options));
    });
  for (const add of [
    addStartBench,
    addDataBenches,
    addInferenceBench,
    addServeBench,
    addCollectivesBench,
    addScalingBench,
  ])
    add(bench, ended);
  bench
    .command('vendor')
    .summary("the vendor's libraries on the workloads of kernels: half a minute")
    .description(
      'Device time of cuBLASLt, cuDNN and cuRAND, called directly: one JSON object a line on stdout, as --peer reads it.',
    )
    .option('--device <name>', DEVICE_HELP)
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle bench vendor > vendor.jsonl\n  $ heddle bench kernels --peer vendor.jsonl',
    )
    .action(async (options: BenchVendorOptions) => {
      const { benchVendor } = await import('./run.js');
      ended(await benchVendor(options));
    });
  bench
    .command('all')
    .summary('kernels, train, matmul, conv, transpose and mnist, one after the other')
    .description('Everything that is measured on one device; figures and charts go into a folder.')
    .option('--peer <file>', 'figures of another library to compare with, as torch_gpu.py prints them')
    .option('--device <name>', DEVICE_HELP)
    .option('--out <folder>', 'where to write', 'bench/results')
    .addHelpText('after', `\nExamples:\n  $ heddle bench all\n${PEER_EXAMPLE('all')}`)
    .action(async (options: BenchAllOptions) => {
      const { benchAll } = await import('./run.js');
      ended(await benchAll(options));
    });
}

function addStartBench(bench: Command, ended: (exitCode: number) => void): void {
  bench
    .command('start')
    .summary('from the start of a process to its first training step: half a minute')
    .description(
      'Start processes that train one step, as heddle train would: the first with empty caches, the others with what it has left there. ' +
        'Says where the time went: importing, planning, compiling, timing variants, loading.',
    )
    .option(
      '--only <list>',
      'training cases or their first words (default: mlp-64,resnet18-tf32-256,gpt-f32-32)',
      words,
    )
    .option('--device <name>', DEVICE_HELP)
    .option('--warm-runs <n>', 'processes that find filled caches (default: 3)', wholeNumber(0))
    .option('--json <file>', 'where to write (default: bench/results/start-<date>.json)')
    .addHelpText('after', '\nExample:\n  $ heddle bench start --only gpt-f32-32 --device cuda')
    .action(async (options: BenchStartOptions) => {
      const { benchStart } = await import('./run.js');
      ended(await benchStart(options));
    });
}

function addLadders(bench: Command, ended: (exitCode: number) => void): void {
  for (const [which, { summary, description, sizes, what, least, rungs, example }] of Object.entries(
    LADDERS,
  )) {
    const command = bench
      .command(which)
      .summary(summary)
      .description(description)
      .option('--only <list>', 'rungs or their first words, separated by commas (default: all)', words)
      .option('--sizes <list>', `${what} (default: ${sizes})`, wholeNumbers(least));
    onDevice(command, which)
      .addHelpText(
        'after',
        `\nRungs:\n  ${rungs}\n\nExamples:\n  $ heddle bench ${which}\n  $ heddle bench ${which} ${example}`,
      )
      .action(async (options: BenchLadderOptions) => {
        const { benchMatmul, benchConv, benchTranspose } = await import('./run.js');
        const benches = { matmul: benchMatmul, conv: benchConv, transpose: benchTranspose };
        ended(await benches[which as keyof typeof LADDERS](options));
      });
  }
}

function addDataBenches(bench: Command, ended: (exitCode: number) => void): void {
  bench
    .command('data')
    .summary('images in files, as the loader gives them and as sharp alone decodes them: some minutes')
    .description(
      'Write JPEGs to a temporary folder, then go through them in turns: by sharp alone, and by the loader, which makes planes ' +
        'of them, bytes as for a training, and f32. Needs the packages heddle-data and sharp.',
    )
    .option('--images <n>', 'how many there are', wholeNumber(1), 10_000)
    .option('--size <n>', 'pixels of a side', wholeNumber(1, 4096), 256)
    .option('--rounds <n>', 'passes by each', wholeNumber(1), 5)
    .option('--workers <n>', 'threads of the loader', wholeNumber(0, 64), 0)
    .option('--json <file>', 'where to write (default: bench/results/data-<date>.json)')
    .addHelpText('after', '\nExample:\n  $ heddle bench data --images 2000')
    .action(async (options: BenchDataOptions) => {
      const { benchData } = await import('./data.js');
      ended(await benchData(options));
    });
  bench
    .command('feed')
    .summary('trainings from the memory of the host beside those from that of the device: about a minute')
    .description(
      'Train lenet5 and resnet18 on random images that are gathered on the device, made on the host, and made by worker ' +
        'threads: µs of a step, and how busy the host keeps the device.',
    )
    .option('--only <list>', 'lenet5-64, lenet5-256, lenet5-1024, resnet18-256 (default: all)', words)
    .option('--steps <n>', 'of an epoch, unless it would take more than 60,000 images', wholeNumber(1), 1000)
    .option('--rounds <n>', 'trainings of each kind', wholeNumber(1), 3)
    .option('--workers <n>', 'threads of the loader that has some', wholeNumber(1, 64), 4)
    .option('--peer <file>', 'figures of another library to compare with, as torch_loader.py prints them')
    .option('--device <name>', DEVICE_HELP)
    .option('--json <file>', 'where to write (default: bench/results/feed-<date>.json)')
    .addHelpText('after', `\nExample:\n  $ heddle bench feed\n${PEER_EXAMPLE('feed', 'torch_loader.py')}`)
    .action(async (options: BenchFeedOptions) => {
      const { benchFeed } = await import('./run.js');
      ended(await benchFeed(options));
    });
}

function addInferenceBench(bench: Command, ended: (exitCode: number) => void): void {
  bench
    .command('inference')
    .summary('engines beside ONNX Runtime and, on a GPU, PyTorch and TensorRT: about two minutes')
    .description(
      'Time of a batch from an array to an array, and of loading an engine from its file. ONNX Runtime computes the same weights in ' +
        'turns with Heddle, written by heddle-onnx; what is not installed is named.',
    )
    .option(
      '--only <list>',
      'cases or their first words: lenet5, resnet18-32, resnet18-224, on a GPU resnet50-bf16, resnet50-int8',
      words,
    )
    .option('--seconds <n>', 'time for each case in each round', positiveNumber, 0.6)
    .option('--rounds <n>', 'turns of Heddle and its peers', wholeNumber(1), 3)
    .option('--python <command>', 'a Python with onnxruntime, numpy and, on a GPU, torch', 'python3')
    .option('--no-peers', 'measure Heddle alone')
    .option('--device <name>', DEVICE_HELP)
    .option('--json <file>', 'where to write (default: bench/results/inference-<date>.json)')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle bench inference --only lenet5,resnet18-32\n  $ HEDDLE_THREADS=1 heddle bench inference',
    )
    .action(async (options: BenchInferenceOptions) => {
      const { benchInference } = await import('./run.js');
      ended(await benchInference(options));
    });
}

function addServeBench(bench: Command, ended: (exitCode: number) => void): void {
  bench
    .command('serve')
    .summary('a service under load beside its engine alone: about two minutes')
    .description(
      'Requests a second, latency and CPU time of a request, with clients that wait for their answers: over REST and gRPC, batched and ' +
        'one by one, an example and 32 of them in a request. Needs the package heddle-serve, and the load tools wrk and h2load, which take ' +
        'their CPU time from the same machine.',
    )
    .option('--only <list>', 'cases or their first words, separated by commas (default: all)', words)
    .option('--seconds <n>', 'time for each case in each round', wholeNumber(1), 5)
    .option('--rounds <n>', 'times that each case is loaded', wholeNumber(1), 3)
    .option('--clients <n>', 'connections', wholeNumber(1, 10_000), 64)
    .option('--device <name>', DEVICE_HELP)
    .option('--json <file>', 'where to write (default: bench/results/serve-<date>.json)')
    .addHelpText(
      'after',
      `
Cases:
  lenet5-rest                   an example in a request, binary
  lenet5-grpc                   the same over gRPC
  lenet5-single                 over REST, not batched
  lenet5-rest32                 32 examples in a request
and the same of wide, a network of three layers with 20 million weights, and of resnet18 on 3×32×32 images.

Example:
  $ heddle bench serve --only lenet5`,
    )
    .action(async (options: BenchServeOptions) => {
      const { benchServe } = await import('./run.js');
      ended(await benchServe(options));
    });
}

function addCollectivesBench(bench: Command, ended: (exitCode: number) => void): void {
  bench
    .command('collectives')
    .summary('all-reduce between processes of this machine, over TCP, by MPI and by NCCL: half a minute')
    .description(
      'Time and bandwidth of sums of 1 KB to 100 MB that each process has (on GPUs, to 500 MB), beside MPI_Allreduce where mpirun is ' +
        'installed, and on GPUs beside torch.distributed where python3 has torch.',
    )
    .option('--ranks <list>', 'numbers of processes, separated by commas (default: 2,4)', wholeNumbers(1, 64))
    .option('--only <list>', 'tcp, mpi, nccl (default: all)', words)
    .option('--json <file>', 'where to write (default: bench/results/collectives-<date>.json)')
    .addHelpText('after', '\nExample:\n  $ heddle bench collectives --ranks 2 --only tcp')
    .action(async (options: BenchCollectivesOptions) => {
      const { benchCollectives } = await import('./collectives.js');
      ended(await benchCollectives(options));
    });
}

function addScalingBench(bench: Command, ended: (exitCode: number) => void): void {
  bench
    .command('scaling')
    .summary('training steps of several processes, beside one and beside PyTorch: a minute')
    .description(
      'Weak scaling (each process has the whole batch) and strong scaling (a part of it), and the share of the exchange of ' +
        'gradients that takes place beside other work. Then PyTorch (DistributedDataParallel under torch.compile, which compiles for ' +
        'minutes), if python3 has it.',
    )
    .option(
      '--ranks <list>',
      'numbers of processes beside one, separated by commas (default: 2)',
      wholeNumbers(2, 64),
    )
    .option(
      '--networks <list>',
      'mlp, lenet5, cnn, resnet18-tf32, resnet18-bf16, gpt2-bf16 (default on the CPU: mlp and lenet5; on GPUs: lenet5, both of resnet18, gpt2-bf16)',
      words,
    )
    .option('--batch <n>', "examples (default: each network's own, on the CPU 512)", wholeNumber(1))
    .option('--kinds <list>', 'weak, strong (default: both)', words)
    .addOption(
      new Option('--device <name>', 'cpu or cuda (default: cuda, if there is a GPU)').choices([
        'cpu',
        'cuda',
      ]),
    )
    .option('--rounds <n>', 'measurements of each (default: 20)', wholeNumber(1))
    .option('--no-peer', 'Heddle alone, without PyTorch')
    .option(
      '--json <file>',
      'where to write (default: bench/results/scaling-<date>.json), after each measurement',
    )
    .addHelpText(
      'after',
      `
Networks on GPUs, with their examples for each rank:
  lenet5          1,024 images of 28×28, Adam
  resnet18-tf32   256 images of 3×32×32, SGD with momentum
  resnet18-bf16   the same in mixed precision
  gpt2-bf16       8 texts of 1,024 tokens, AdamW, 124 million parameters, mixed precision
  gpt2-bf16-sharded  the same, each parameter updated on one rank

Example:
  $ heddle bench scaling --ranks 2,4 --networks lenet5 --batch 1024`,
    )
    .action(async (options: BenchScalingOptions) => {
      const { benchScaling } = await import('./scaling.js');
      ended(await benchScaling(options));
    });
}
