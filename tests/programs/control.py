"""Branches, loops and maps of programs: operators of higher order where the program is exported, Python where it is run (an oracle sees each operator)."""
import torch
from torch._higher_order_ops import associative_scan, map as higher_map, scan as higher_scan, while_loop
from torch.utils._pytree import tree_map


def exporting():
    return torch.compiler.is_exporting() or torch.compiler.is_dynamo_compiling()


def cond(predicate, then, other, operands):
    if exporting():
        return torch.cond(predicate, then, other, operands)
    return (then if bool(predicate) else other)(*operands)


def each(xs, i):
    return tree_map(lambda t: t[i], xs)


def length(xs):
    return (xs[0] if isinstance(xs, tuple) else xs).shape[0]


def joined(rows):
    if isinstance(rows[0], tuple):
        return tuple(torch.stack(r) for r in zip(*rows))
    return torch.stack(rows)


def scan(step, carry, xs, reverse=False):
    if exporting():
        return higher_scan(step, carry, xs, reverse=reverse)
    order = range(length(xs))
    outs = []
    for i in reversed(order) if reverse else order:
        carry, out = step(carry, each(xs, i))
        outs.append(out)
    return carry, joined(outs[::-1] if reverse else outs)


def rows_map(f, xs, *more):
    if exporting():
        return higher_map(f, xs, *more)
    return joined([f(each(xs, i), *more) for i in range(length(xs))])


def loop(condition, body, carried):
    if exporting():
        return while_loop(condition, body, carried)
    while bool(condition(*carried)):
        carried = body(*carried)
    return tuple(t.clone() for t in carried)


def halves(combine, xs, dim, reverse=False):
    if exporting():
        return associative_scan(combine, xs, dim, reverse=reverse, combine_mode="generic")
    rows = list((xs.flip(dim) if reverse else xs).unbind(dim))
    for i in range(1, len(rows)):
        rows[i] = combine(rows[i - 1], rows[i])
    y = torch.stack(rows, dim)
    return y.flip(dim) if reverse else y


HELPERS = {f.__name__: f for f in (cond, scan, rows_map, loop, halves)}
