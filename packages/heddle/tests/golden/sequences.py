"""Golden numbers of what works on sequences: embeddings, attention, transformers, recurrent networks, CTC.

    python3 sequences.py   # needs torch and numpy; writes sequences.json beside this file

make.py says what a case is. Parameters are inputs under their names in PyTorch's state dict, in camelCase.
"""

import re
import zlib

import torch
import torch.nn.functional as F
from torch.func import functional_call

from make import Cases, write


def embeddings(c):
    r = c.random("embedding")
    weight = r(7, 3)
    indices = torch.tensor([[1, 6, 0, 1], [2, 2, 1, 5]])
    for title, given, args in (
        ("embedding", {}, {}),
        ("embedding with a padding index", {"padding_idx": 2}, {"paddingIndex": 2}),
        ("embedding with a padding index from the back", {"padding_idx": -1}, {"paddingIndex": -1}),
    ):
        compute = lambda indices, weight, given=given: F.embedding(indices, weight, **given)
        c.add(title, "embedding", compute, {"indices": indices, "weight": weight}, args, grad=["weight"])
    for ord in (1, 2):
        limited = lambda indices, weight, ord=ord: F.embedding(indices, weight, max_norm=1.0, norm_type=float(ord))
        c.add(f"embedding of norms up to 1 by p = {ord}", "embedding", limited, {"indices": indices, "weight": weight},
              {"maxNorm": 1, "normType": ord}, more=lambda values: {"weight": values["weight"]})


def camel(name):
    return re.sub(r"_(\w)", lambda m: m[1].upper(), name)


def snake(name):
    return re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name)


def state(module, title):
    """The module's parameters by Heddle's names, drawn from N(0, 0.3²)."""
    generator = torch.Generator()
    generator.manual_seed(zlib.crc32(title.encode()))
    return {camel(k): 0.3 * torch.randn(v.shape, generator=generator) for k, v in module.state_dict().items()}


def module_case(c, title, op, module, call, inputs, args):
    """`call(run, **inputs)` runs the module by `run(*arguments)`. Gradients of all floats."""
    parameters = state(module, title)
    module = module.double()

    def compute(**given):
        values = {snake(k): given[k] for k in parameters}
        own = {k: given[k] for k in inputs}
        return call(lambda *a, **b: functional_call(module, values, a, b), **own)

    floats = [k for k, v in inputs.items() if v.is_floating_point() and not k.endswith("Mask")]
    c.add(title, op, compute, inputs | parameters, args, grad=[*floats, *parameters])


def attention(c):
    r = c.random("attention")
    q, k, v = r(2, 4, 3, 5), r(2, 4, 6, 5), r(2, 4, 6, 2)
    hidden = r(3, 6) > 0.3
    some = hidden.clone()
    some[:, 0] = False
    op = "scaledDotProductAttention"
    for title, given, args in (
        ("", {}, {}),
        ("causal", {"is_causal": True}, {"isCausal": True}),
        ("scaled", {"scale": 0.3}, {"scale": 0.3}),
    ):
        f = lambda q, k, v, given=given: F.scaled_dot_product_attention(q, k, v, **given)
        c.add(f"attention {title}".strip(), op, f, {"q": q, "k": k, "v": v}, args, grad=["q", "k", "v"])
    f = lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    masks = {
        "bools": ~some,
        "bools for each head": r(2, 4, 3, 6) > -0.7,
        "floats": r(3, 6),
        "floats and -inf": torch.where(some, -torch.inf, r(3, 6)),
    }
    for title, mask in masks.items():
        inputs = {"q": q, "k": k, "v": v, "mask": mask}
        c.add(f"attention by {title}", op, f, inputs, grad=["q", "k", "v"])
    shared = {"q": q, "k": k[:, :2], "v": v[:, :2]}
    f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    c.add("attention of grouped heads", op, f, shared, {"isCausal": True, "enableGqa": True}, grad=["q", "k", "v"])

    query, memory, wide = r(2, 4, 6), r(2, 5, 6), r(2, 5, 3)
    padding = torch.tensor([[False] * 5, [False, False, True, False, True]])
    each = torch.triu(torch.ones(4, 5), 2).bool()
    first = lambda **more: {"embedDim": 6, "numHeads": 2, "batchFirst": True, **more}

    def layer(title, call, inputs, args):
        given = {snake(k): v for k, v in args.items()}
        module_case(c, title, "MultiheadAttention", torch.nn.MultiheadAttention(**given), call, inputs, args)

    layer("self-attention", lambda run, query: run(query, query, query)[0], {"query": query}, first())
    layer("self-attention of lengths first", lambda run, query: run(query, query, query)[0], {"query": query},
          {"embedDim": 6, "numHeads": 3})
    layer("self-attention without a batch", lambda run, query: run(query, query, query)[0], {"query": query[0]}, first())
    layer("attention to a memory", lambda run, query, key: run(query, key, key)[0], {"query": query, "key": memory},
          first(bias=False))
    layer("attention to keys and values of other sizes", lambda run, query, key, value: run(query, key, value)[0],
          {"query": query, "key": memory, "value": wide}, first(vdim=3))
    layer("attention with masks", lambda run, query, key, keyPaddingMask, attnMask: run(
          query, key, key, key_padding_mask=keyPaddingMask, attn_mask=attnMask)[0],
          {"query": query, "key": memory, "keyPaddingMask": padding, "attnMask": each}, first())
    layer("attention with masks of floats and bools", lambda run, query, key, keyPaddingMask, attnMask: run(
          query, key, key, key_padding_mask=torch.where(keyPaddingMask, -torch.inf, 0.0).double(), attn_mask=attnMask)[0],
          {"query": query, "key": memory, "keyPaddingMask": padding, "attnMask": r(4, 4, 5)}, first())


def transformers(c):
    r = c.random("transformers")
    src, memory = r(2, 4, 6), r(2, 5, 6)
    padding = torch.tensor([[False] * 4, [False, False, True, False]])
    memory_padding = torch.tensor([[False] * 5, [True, False, False, False, True]])
    causal = torch.triu(torch.ones(4, 4), 1).bool()
    args = {"dModel": 6, "nhead": 2, "dimFeedforward": 7, "dropout": 0.0, "batchFirst": True}

    def layer(title, op, call, inputs, more, layers=0):
        given = {snake(k): v for k, v in (args | more).items() if k not in ("numLayers", "norm")}
        kind = op if op.endswith("Layer") else op + "Layer"
        module = getattr(torch.nn, kind)(**given)
        if layers:
            norm = torch.nn.LayerNorm(6) if more.get("norm") else None
            module = getattr(torch.nn, op)(module, layers, norm)
        module_case(c, title, op, module, call, inputs, args | more)

    encode = lambda run, src: run(src)
    layer("encoder layer", "TransformerEncoderLayer", encode, {"src": src}, {})
    layer("encoder layer, norm first, gelu", "TransformerEncoderLayer", encode, {"src": src},
          {"normFirst": True, "activation": "gelu", "bias": False})
    layer("encoder, causal and padded", "TransformerEncoder", lambda run, src, srcKeyPaddingMask: run(
          src, mask=causal, src_key_padding_mask=srcKeyPaddingMask, is_causal=True),
          {"src": src, "srcKeyPaddingMask": padding}, {"numLayers": 2, "norm": True}, layers=2)
    layer("decoder, causal and padded", "TransformerDecoder", lambda run, tgt, memory, memoryKeyPaddingMask: run(
          tgt, memory, tgt_mask=causal, memory_key_padding_mask=memoryKeyPaddingMask),
          {"tgt": src, "memory": memory, "memoryKeyPaddingMask": memory_padding}, {"numLayers": 2}, layers=2)


def recurrences(c):
    r = c.random("recurrences")
    flat = lambda *tensors: torch.cat([t.flatten() for t in tensors])
    x = r(4, 3, 5)
    for op, more in (
        ("RNN", {}),
        ("RNN", {"nonlinearity": "relu", "bias": False, "batchFirst": True}),
        ("RNN", {"numLayers": 2, "bidirectional": True}),
        ("GRU", {}),
        ("GRU", {"numLayers": 2, "bidirectional": True, "batchFirst": True}),
        ("LSTM", {}),
        ("LSTM", {"bias": False}),
        ("LSTM", {"numLayers": 2, "bidirectional": True, "batchFirst": True}),
    ):
        args = {"inputSize": 5, "hiddenSize": 4, **more}
        title = f"{op} {more}"
        module = getattr(torch.nn, op)(**{snake(k): v for k, v in args.items()})
        parts = more.get("numLayers", 1) * (2 if more.get("bidirectional") else 1)
        states = {"h": r(parts, 4 if more.get("batchFirst") else 3, 4)}
        if op == "LSTM":
            states["c"] = r(*states["h"].shape)

        def call(run, input, h=None, c=None):
            output, state = run(input, h if c is None else (h, c)) if h is not None else run(input)
            return flat(output, *(state if isinstance(state, tuple) else (state,)))

        given = states if more else {}
        module_case(c, title, op, module, call, {"input": x, **given}, args)
    for op in ("RNNCell", "GRUCell", "LSTMCell"):
        args = {"inputSize": 5, "hiddenSize": 4}
        states = {"h": r(3, 4), **({"c": r(3, 4)} if op == "LSTMCell" else {})}

        def call(run, input, h, c=None):
            return flat(run(input, h)) if c is None else flat(*run(input, (h, c)))

        module_case(c, op, op, getattr(torch.nn, op)(5, 4), call, {"input": r(3, 5), **states}, args)


def ctc(c):
    r = c.random("ctc")
    logits = r(9, 4, 5)
    targets = torch.tensor([[1, 2, 2, 4], [3, 0, 0, 0], [1, 1, 1, 1], [2, 4, 3, 1]])
    input_lengths, target_lengths = torch.tensor([9, 6, 7, 8]), torch.tensor([4, 1, 4, 2])
    for title, args in (
        ("mean", {}),
        ("sum", {"reduction": "sum"}),
        ("none", {"reduction": "none"}),
        ("another blank", {"blank": 3, "reduction": "none"}),
        ("impossible", {"reduction": "none", "zeroInfinity": True}),
    ):
        def compute(logits, targets, inputLengths, targetLengths, args=args):
            given = {snake(k): v for k, v in args.items()}
            return F.ctc_loss(logits.log_softmax(2), targets.long(), inputLengths, targetLengths, **given)

        t = torch.where(targets == 3, 0, targets) if title == "another blank" else targets
        lengths = torch.tensor([4, 1, 6, 1]) if title == "impossible" else input_lengths
        inputs = {"logits": logits, "targets": t, "inputLengths": lengths, "targetLengths": target_lengths}
        c.add(f"ctcLoss {title}", "ctcLoss", compute, inputs, args, grad=["logits"])


def main():
    c = Cases()
    for family in (embeddings, attention, transformers, recurrences, ctc):
        family(c)
    write("sequences", cases=c.cases)
    print(f"{len(c.cases)} cases")


if __name__ == "__main__":
    main()
