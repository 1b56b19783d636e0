// A network that learns exclusive or, its training step compiled to one program.
import { bceWithLogits, jit, manualSeed, nn, optim, sigmoid, type Tensor, tensor } from 'heddle';

manualSeed(1);
const x = tensor([
  [0, 0],
  [0, 1],
  [1, 0],
  [1, 1],
]);
const y = tensor([[0], [1], [1], [0]]);

const model = new nn.Sequential(new nn.Linear(2, 8), new nn.Tanh(), new nn.Linear(8, 1));
const optimizer = new optim.Adam(model.parameters(), { lr: 0.05 });

const step = jit((inputs: Tensor, targets: Tensor) => {
  const loss = bceWithLogits(model.forward(inputs), targets);
  loss.backward();
  optimizer.step();
  return loss;
});

for (let i = 1; i <= 300; i++) {
  const loss = step(x, y);
  if (i % 50 === 0) console.log(`step ${i}: loss ${(await loss.item()).toFixed(4)}`);
}

for (const [i, p] of Array.from(await sigmoid(model.forward(x)).data(), Number).entries()) {
  console.log(`${i >> 1} xor ${i & 1} = ${Math.round(p)}  (${p.toFixed(3)})`);
}
