/** What a training step of lenet5 computes, as a graph. */
import { i32 } from '../../src/core/dtype.js';
import { Trace } from '../../src/engine/trace.js';
import type { GraphNode } from '../../src/graph/node.js';
import { crossEntropy, optim, useDevice, zeros } from '../../src/index.js';
import { LeNet5 } from '../../src/train/programs.js';

/** The parameters after a step of SGD on that many images, and the loss. */
export function lenet5Step(batch: number): GraphNode[] {
  useDevice('cpu');
  const model = new LeNet5();
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const [x, labels] = [zeros([batch, 1, 28, 28]), zeros([batch], { dtype: i32 })];
  const trace = new Trace(() => {});
  const loss = trace.run(() => {
    const value = crossEntropy(model.forward(x), labels);
    value.backward();
    optimizer.step();
    return value;
  });
  return [...trace.assigned.values(), loss.node];
}
