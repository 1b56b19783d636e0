/** The kernels that the scheduler generates for a GPU: those of whole training steps, forward and backward. */
import { i32 } from '../src/core/dtype.js';
import { leaf } from '../src/graph/build.js';
import type { KernelIr } from '../src/kernel/ir.js';
import type { Target } from '../src/kernel/target.js';
import { schedule } from '../src/schedule/schedule.js';
import { crossEntropy } from '../src/tensor/functional.js';
import { Tensor } from '../src/tensor/tensor.js';
import { PROGRAMS } from '../src/train/programs.js';

/** Every launch's kernel of one step of lenet5 and cnn: the loss and all gradients. */
export function generatedKernels(target: Target): KernelIr[] {
  return (['lenet5', 'cnn'] as const).flatMap((name) => {
    const model = PROGRAMS[name].build();
    const images = new Tensor(leaf([64, 1, 28, 28], model.parameters()[0]!.dtype));
    const loss = crossEntropy(model.forward(images), new Tensor(leaf([64], i32)));
    loss.backward();
    const gradients = model.parameters().map((p) => p.grad!.node);
    return schedule([loss.node, ...gradients], target).launches.flatMap(({ work }, i): KernelIr[] =>
      'kernel' in work ? [{ ...work.kernel, name: `${name}_${i}_${work.kernel.name}` }] : [],
    );
  });
}
