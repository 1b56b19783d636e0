"""Golden numbers for operations on tensors that are no layers: order, indexing, products, and gradients of gradients.

    python3 tensors.py     # needs torch and numpy; writes tensors.json beside this file

The file is as make.py describes ops.json.
"""

import torch

from make import Cases, write


def second_derivatives(c):
    r = c.random("penalty")

    def penalty(x, w):
        """The squared norm of a network's gradient in its input: what a gradient penalty adds to a loss."""
        if not x.requires_grad:
            x = x.detach().requires_grad_(True)
        y = torch.tanh(x @ w).square().sum() + torch.softmax(x, 1).log().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum(1)

    c.add("penalty", "penalty", penalty, {"x": r(3, 4), "w": r(4, 5)}, grad=["x", "w"])

    def slope_of_product(x, w):
        if not x.requires_grad:
            x = x.detach().requires_grad_(True)
        (g,) = torch.autograd.grad((x.prod(1) * w).sum(), x, create_graph=True)
        return g

    zeros = torch.tensor([[2.0, -1, 3, 0.5], [0, -1, 3, 0.5], [0, -1, 0, 0.5], [0, 0, 3, 0]])
    c.add("slope of prod", "slopeOfProd", slope_of_product, {"x": zeros, "w": r(4)}, grad=["x", "w"])


def order(c):
    ties = torch.tensor([[2.0, -0.0, 1.0, 0.0, 2.0, 1.0], [1.0, 1.0, -3.0, 5.0, 0.0, -3.0]])
    for name, x in {"distinct": c.random("sort")(3, 7), "ties": ties}.items():
        for axis in (0, 1):
            for descending in (False, True):
                args = {"axis": axis, "descending": descending}
                what = f"{name} axis {axis}{' descending' if descending else ''}"

                def by(x, axis=axis, descending=descending):
                    return torch.sort(x, dim=axis, descending=descending, stable=True)

                c.add(f"sort {what}", "sort", lambda x, by=by: by(x)[0], {"x": x}, args, grad=["x"])
                c.add(f"argsort {what}", "argsort", lambda x, by=by: by(x)[1], {"x": x}, args)
    for largest in (True, False):
        args = {"k": 3, "axis": 1, "largest": largest}
        x = c.random("topk")(4, 9)
        c.add(f"topk {largest}", "topk", lambda x, l=largest: x.topk(3, 1, l)[0], {"x": x}, args, grad=["x"])


def indexing(c):
    r = c.random("scatter")
    index = torch.tensor([[2, 0, 4, 1], [3, 1, 0, 2]])
    wide = {"x": r(3, 5), "index": index, "src": r(2, 4)}
    long = {k: v.mT.contiguous() for k, v in wide.items()}
    for axis, inputs in ((1, wide), (0, long)):
        for op, name in (("scatter", "scatter"), ("scatterAdd", "scatter_add")):

            def compute(x, index, src, axis=axis, name=name):
                return getattr(x, name)(axis, index, src)

            c.add(f"{op} axis {axis}", op, compute, inputs, {"axis": axis}, grad=["x", "src"])
    repeated = wide | {"index": torch.tensor([[2, 2, 2, 1], [0, 0, 4, 4]])}
    c.add(
        "scatterAdd repeated",
        "scatterAdd",
        lambda x, index, src: x.scatter_add(1, index, src),
        repeated,
        {"axis": 1},
        grad=["x", "src"],
    )
    rows = torch.tensor([2, 0, 2])
    c.add(
        "indexAdd",
        "indexAdd",
        lambda x, index, src: x.index_add(0, index, src, alpha=0.5),
        {"x": r(3, 4), "index": rows, "src": r(3, 4)},
        {"axis": 0, "alpha": 0.5},
        grad=["x", "src"],
    )
    for op, f in {
        "indexSelect": lambda x, index: x.index_select(1, index),
        "take": lambda x, index: x.take(index),
    }.items():
        c.add(op, op, f, {"x": r(2, 4), "index": torch.tensor([3, 1, 1])}, {"axis": 1}, grad=["x"])


def products(c):
    for equation, shapes in (
        ("ij,jk->ik", ((3, 4), (4, 5))),
        ("ij,jk", ((3, 4), (4, 5))),
        ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("ij,kj->", ((3, 4), (2, 4))),
        ("ii->i", ((4, 4),)),
        ("iji->j", ((3, 2, 3),)),
        ("ba", ((3, 4),)),
        ("i,j->ji", ((3,), (4,))),
        ("abc,cd,db->ad", ((2, 3, 4), (4, 5), (5, 3))),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
        ("i...,i->...", ((3, 2, 4), (3,))),
        ("ij,ij->ij", ((3, 1), (3, 4))),
        ("bi,bj,bk->bijk", ((2, 3), (2, 2), (2, 4))),
        (",i->i", ((), (3,))),
    ):
        names = "abc"[: len(shapes)]
        r = c.random(f"einsum {equation}")
        inputs = {n: r(*shape) for n, shape in zip(names, shapes)}

        def compute(equation=equation, **tensors):
            return torch.einsum(equation, *tensors.values())

        c.add(f"einsum {equation}", "einsum", compute, inputs, {"equation": equation}, grad=list(names))


def functions(c):
    x = torch.linspace(-0.95, 0.95, 20).reshape(4, 5)
    for op in ("tan", "asin", "acos", "atan", "sinh", "cosh", "frac"):
        c.add(op, op, lambda x, op=op: getattr(torch, op)(x), {"x": x if op in ("asin", "acos") else 1.5 * x}, grad=["x"])
    r = c.random("functions")
    for op in ("atan2", "logaddexp", "remainder"):
        inputs = {"a": r(3, 4) * 3, "b": r(3, 1)}
        c.add(op, op, lambda a, b, op=op: getattr(torch, op)(a, b), inputs, grad=["a", "b"])


def main():
    c = Cases()
    for part in (second_derivatives, order, indexing, products, functions):
        part(c)
    write("tensors", cases=c.cases)
    print(f"{len(c.cases)} cases")


if __name__ == "__main__":
    main()
