/** Damaged models: bytes changed, cut and moved, and models whose protobuf is whole but says something else. */
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type GraphProto,
  type ModelProto,
  ModelProtoSchema,
  type NodeProto,
} from '../src/protobuf/onnx_pb.js';

/** A whole number below `n`. */
export type Draw = (n: number) => number;

/** Draws from a seed, the same ones every time (Steele et al., Fast splittable pseudorandom number generators, 2014). */
export function drawsFrom(seed: number): Draw {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % n;
  };
}

/** A damaged copy of a model's bytes. @param other another model, pieces of which are put in */
export function mutated(model: Uint8Array, other: Uint8Array, draw: Draw): Uint8Array {
  if (draw(3) > 0) return rewritten(model, draw);
  let bytes: Uint8Array = model.slice();
  for (let left = 1 + draw(2); left > 0; left--) bytes = damaged(bytes, other, draw);
  return bytes;
}

function damaged(bytes: Uint8Array, other: Uint8Array, draw: Draw): Uint8Array {
  const at = draw(bytes.length);
  switch (draw(6)) {
    case 0:
    case 1:
      bytes[at]! ^= 1 << draw(8);
      return bytes;
    case 2:
      bytes[at] = draw(256);
      return bytes;
    case 3:
      return bytes.slice(0, 1 + at);
    case 4:
      bytes.copyWithin(draw(bytes.length), at, at + draw(32));
      return bytes;
    default: {
      const from = draw(other.length);
      const piece = other.subarray(from, from + draw(40)).subarray(0, bytes.length - at);
      bytes.set(piece, at);
      return bytes;
    }
  }
}

/** Numbers that sizes, axes and counts should not be. */
const NUMBERS = [
  0n,
  1n,
  -1n,
  2n,
  3n,
  7n,
  255n,
  -128n,
  65536n,
  2n ** 31n - 1n,
  -(2n ** 31n),
  2n ** 32n,
  2n ** 53n,
  2n ** 63n - 1n,
  -(2n ** 63n),
];

/** The model with something else in one of its fields. */
function rewritten(bytes: Uint8Array, draw: Draw): Uint8Array {
  const model = fromBinary(ModelProtoSchema, bytes);
  for (let left = 1 + draw(2); left > 0; left--) rewrite(model, draw);
  return toBinary(ModelProtoSchema, model);
}

function rewrite(model: ModelProto, draw: Draw): void {
  const graph = model.graph!;
  const number = (): bigint => NUMBERS[draw(NUMBERS.length)]!;
  switch (draw(8)) {
    case 0:
    case 1:
      rewriteNode(pick(graph.node, draw), graph, draw, number);
      return;
    case 2: {
      const tensor = pick(graph.initializer, draw) ?? pick(graph.node, draw)?.attribute.find((a) => a.t)?.t;
      if (tensor) {
        if (draw(2)) tensor.dims[draw(tensor.dims.length + 1)] = number();
        else tensor.dataType = draw(30);
      }
      return;
    }
    case 3: {
      const type = pick([...graph.input, ...graph.output], draw)?.type?.value;
      if (type?.case === 'tensorType') type.value.elemType = draw(30);
      return;
    }
    case 4:
      for (const opset of model.opsetImport) opset.version = draw(2) ? BigInt(draw(30)) : number();
      return;
    case 5:
      graph.node.splice(draw(graph.node.length + 1), draw(2));
      return;
    case 6: {
      const node = pick(graph.node, draw);
      if (node) graph.node.splice(draw(graph.node.length), 0, node);
      return;
    }
    default:
      graph.node.reverse();
  }
}

function rewriteNode(node: NodeProto | undefined, graph: GraphProto, draw: Draw, number: () => bigint): void {
  if (!node) return;
  const attribute = pick(node.attribute, draw);
  switch (draw(6)) {
    case 0:
      node.input[draw(node.input.length + 1)] = pick(graph.node, draw)?.output[0] ?? '';
      return;
    case 1:
      node.input.splice(draw(node.input.length + 1), 1);
      return;
    case 2:
      node.opType = pick(
        ['Reshape', 'Conv', 'Loop', 'Resize', 'Tile', 'Expand', 'Gather', 'Pad', 'Slice', 'Concat'],
        draw,
      )!;
      return;
    case 3:
      if (attribute) attribute.type = draw(16) as typeof attribute.type;
      return;
    default:
      if (!attribute) return;
      if (attribute.ints.length > 0) attribute.ints[draw(attribute.ints.length + 1)] = number();
      else attribute.i = number();
  }
}

const pick = <T>(list: readonly T[], draw: Draw): T | undefined => list[draw(Math.max(1, list.length))];
