/** Lists of modules and parameters, and hooks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as nn from '../../src/nn/index.js';
import { ones, tensor } from '../../src/tensor/create.js';
import type { Tensor } from '../../src/tensor/tensor.js';

test('lists and records of modules and parameters have the names of their elements', () => {
  class Net extends nn.Module {
    readonly layers = new nn.ModuleList([new nn.Linear(2, 2), new nn.Linear(2, 1)]);
    readonly heads = new nn.ModuleDict({ first: new nn.Linear(1, 1), second: new nn.Identity() });
    readonly scales = new nn.ParameterList([tensor([1], { requiresGrad: true })]);
    readonly shifts = new nn.ParameterDict({ up: tensor([1], { requiresGrad: true }) });
    forward(x: Tensor): Tensor {
      return [...this.layers].reduce((y, layer) => layer.forward(y), x);
    }
  }
  const net = new Net();
  assert.deepEqual(Object.keys(net.stateDict()), [
    ...['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias'],
    ...['heads.first.weight', 'heads.first.bias', 'scales.0', 'shifts.up'],
  ]);
  assert.equal(net.parameters().length, 8);
  assert.equal(net.layers.length, 2);
  assert.equal(net.layers.at(-1)!.weight.shape[0], 1);
  assert.deepEqual(
    [...net.heads].map(([name]) => name),
    ['first', 'second'],
  );
  assert.ok(net.heads.has('second') && !net.heads.has('third'));
  assert.equal(net.scales.at(0), [...net.scales][0]);
  assert.deepEqual(net.forward(ones([3, 2])).shape, [3, 1]);
  assert.throws(() => net.heads.get('third'), /there is no 'third'. Expected one of: first, second/);
  assert.throws(() => net.shifts.get('down'), /there is no 'down'/);
  assert.throws(() => net.layers.forward(), /\[ModuleList\] is a list and has no forward/);
  assert.throws(() => new nn.ModuleList([1 as never]), /element 0 is 1, must be a module/);
  assert.throws(() => new nn.ModuleDict({ 'a.b': new nn.ReLU() }), /name 'a.b' contains a dot/);
  assert.throws(() => new nn.ParameterList({} as never), /got \{\}, must be an array/);
});

test('hooks see and change what goes into a module and what comes out, until they are removed', async () => {
  const layer = new nn.ReLU();
  const seen: string[] = [];
  const before = layer.registerForwardPreHook((module, [x]) => {
    assert.equal(module, layer);
    seen.push('before');
    return [(x as Tensor).add(1)];
  });
  const doubled = layer.registerForwardHook((_, [x], y) => {
    seen.push(`after ${(x as Tensor).shape}`);
    return (y as Tensor).mul(2);
  });
  const silent = layer.registerForwardHook(() => undefined);
  const value = async (): Promise<number> => layer.forward(tensor([-0.5])).item();
  assert.equal(await value(), 1);
  assert.deepEqual(seen, ['before', 'after 1']);
  before.remove();
  before.remove();
  assert.equal(await value(), 0);
  doubled.remove();
  silent.remove();
  assert.equal(layer.forward, nn.ReLU.prototype.forward);
  assert.throws(() => layer.registerForwardHook(1 as never), /hook is 1, must be a function/);
});

test('layers pad as their names say', async () => {
  const x = tensor([[[1, 2, 3]]]);
  const row = async (layer: nn.PaddingLayer): Promise<number[]> =>
    Array.from(await layer.forward(x).data(), Number);
  assert.deepEqual(await row(new nn.ConstantPad1d([1, 2], 9)), [9, 1, 2, 3, 9, 9]);
  assert.deepEqual(await row(new nn.ZeroPad1d(1)), [0, 1, 2, 3, 0]);
  assert.deepEqual(await row(new nn.ReflectionPad1d([2, 1])), [3, 2, 1, 2, 3, 2]);
  assert.deepEqual(await row(new nn.ReplicationPad1d([0, 2])), [1, 2, 3, 3, 3]);
  assert.deepEqual(await row(new nn.CircularPad1d([1, 2])), [3, 1, 2, 3, 1, 2]);
  assert.deepEqual(new nn.ZeroPad2d([1, 2, 3, 4]).forward(ones([1, 1, 2, 2])).shape, [1, 1, 9, 5]);
  assert.throws(
    () => new nn.ReflectionPad1d(3).forward(x),
    /reflect of 3 elements, but dimension 2 of \(1,1,3\) has 3: at most 2/,
  );
  assert.throws(() => new nn.ZeroPad2d(1).forward(x), /\[ZeroPad2d\] x is \(1,1,3\), must be \(N,C,H,W\)/);
  assert.throws(() => new nn.ZeroPad2d([1, 2] as never), /must be an integer ≥ 0, or four of them/);
});
