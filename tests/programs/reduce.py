"""Makes a program that fails smaller, and prints it as a script."""
import dataclasses
import re

import torch

import apart
from check import DIED, NO_FAULT, OK, Check, Verdict
from program import Leaf, Statement, script


def repeat(o, tools, program):
    verdict = verdict_of(tools, program)
    print(f"{verdict.kind} {verdict.why[:1500]}")
    if verdict.kind in NO_FAULT:
        return 0
    if o.reduce:
        program, verdict = reduce(tools, program, verdict)
        print(f"reduced: {verdict.kind} {verdict.why[:1500]}")
    made = program.replay()[0]
    print(script(program, made))
    if verdict.salt:
        sizes = verdict.sizes or {}
        print(f"# fails with sizes {sizes}:")
        for name, t in program.replay(sizes, verdict.salt)[0].items():
            print(f"#   {name}: {tuple(t.shape)} {t.dtype}" + (f" {t.tolist()}" if t.numel() <= 64 else ""))
    return 1


def verdict_of(tools, program):
    watch = apart.Watch()
    try:
        verdicts = apart.run(watch, lambda: Check(tools, [program], watch).run())
    except apart.Died as e:
        return Verdict(program, DIED, e.why)
    except Exception as e:
        return dataclasses.make_dataclass("Failed", ["kind", "why", "sizes", "salt"])("not a program", f"{type(e).__name__}: {e}", None, 0)
    return verdicts[0]


def same_fault(a, b):
    """The same kind, and for messages of the compiler the same text but for names and numbers."""

    def key(v):
        return (v.kind, "" if v.kind == "wrong" else re.sub(r"[\w.]*\d[\w.]*", "#", v.why)[:160])

    return key(a) == key(b)


def words(text):
    return set(re.findall(r"[A-Za-z_]\w*", text))


def without_dead(p, outputs):
    """Keeps what the outputs need; a statement that writes in place stays when anything of what it names does."""
    needed, items = set(outputs), []
    for item in reversed(p.items):
        if isinstance(item, Statement):
            if set(item.targets) & needed or (not item.targets and words(item.text) & needed) or ("_(" in item.text and words(item.text) & needed):
                items.append(item)
                needed |= words(item.text)
        elif item.name in needed:
            items.append(item)
            needed |= words(" ".join([*item.dims, item.lo, item.hi, item.of]))
    return dataclasses.replace(p, items=items[::-1], outputs=list(outputs))


def smaller(p):
    """Programs that are p with something left out, the greatest cuts first."""
    if len(p.outputs) > 1:
        for out in p.outputs:
            yield without_dead(p, [out])
    for k, item in enumerate(p.items):
        if isinstance(item, Statement) and not item.targets:
            yield without_dead(dataclasses.replace(p, items=p.items[:k] + p.items[k + 1 :]), p.outputs)
    for item in p.statements():  # an operand in the place of a result
        if len(item.targets) == 1:
            for operand in sorted(words(item.text) & names_before(p, item)):
                items = [renamed(i, item.targets[0], operand) for i in p.items if i is not item]
                yield without_dead(dataclasses.replace(p, items=items), [operand if x == item.targets[0] else x for x in p.outputs])
    if not p.sizes:
        env_of = {}
        try:
            made = p.replay()[0]
            from program import base_env

            env_of = base_env()
            env_of.update({n: t.clone() for n, t in made.items()})
            for item in p.statements():
                exec(item.line(), env_of)
        except Exception:
            return
        for k, item in enumerate(p.items):  # a leaf in the place of a result
            if isinstance(item, Statement) and len(item.targets) == 1 and k and words(item.text) & {i.name for i in p.leaves()} | set(item.targets):
                t = env_of[item.targets[0]]
                if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.dtype == torch.bool):
                    leaf = Leaf(item.targets[0], t.dtype, [str(n) for n in t.shape], "bools" if t.dtype == torch.bool else "normal")
                    yield without_dead(dataclasses.replace(p, items=p.items[:k] + [leaf] + p.items[k + 1 :]), p.outputs)


def names_before(p, statement):
    out = set()
    for i in p.items:
        if i is statement:
            return out
        out |= {i.name} if isinstance(i, Leaf) else set(i.targets)
    return out


def renamed(item, old, new):
    def swap(text):
        return re.sub(rf"\b{old}\b", new, text)

    if isinstance(item, Statement):
        return Statement(item.targets, swap(item.text))
    return dataclasses.replace(item, dims=[swap(d) for d in item.dims], lo=swap(item.lo), hi=swap(item.hi), of=swap(item.of), view=swap(item.view))


def reduce(tools, program, verdict, tries=60):
    while tries > 0:
        for candidate in smaller(program):
            tries -= 1
            if tries < 0:
                break
            try:
                candidate.replay()
            except Exception:
                continue
            v = verdict_of(tools, candidate)
            if v.kind not in (OK, "not a program") and same_fault(v, verdict):
                program, verdict = candidate, v
                break
        else:
            break
    return program, verdict
