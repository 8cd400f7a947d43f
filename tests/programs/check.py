"""One pack of programs through the whole road: eager and fp64, export, what the archive refuses, build, two runs, judgement."""
import collections
import contextlib
import dataclasses
import os
import random
import re

import torch

import pack as packs
from apart import Watch
from judge import Expected, judge, same_bits
from program import TooLarge, quiet

OK, WRONG, DIED = "correct", "wrong", "torch died"
NO_FAULT = (OK, DIED, "refused", "not exported", "too large", "unstable", "export differs")
SETS = 3  # of sizes and data; the first is the exported one


@dataclasses.dataclass
class Verdict:
    program: object
    kind: str  # OK, WRONG, "not exported", "refused", "build failed", "crash", "accepts", "refuses", "unstable", "export differs", "too large", DIED
    why: str = ""
    sizes: dict = None
    salt: int = 0


@dataclasses.dataclass
class Tools:
    aotc: str
    runner: str
    work: str
    flags: tuple = ()
    env: dict = None
    emulate: str = ""  # the folder of the emulated GPU's libcuda.so.1: artifacts for GPUs run on it

    def path(self, name):
        return os.path.join(self.work, name)


def other_sizes(p, k):
    rng = random.Random(p.data_seed * 31 + k)
    pools = [[2, 3, 5, 6, 10, 13, 17, 20], [0, 1, 1, 2, 4, 33, 40, 65]]
    sizes = {s: rng.choice(pools[(k - 1) % 2] if rng.random() < 0.8 else pools[k % 2]) for s in p.sizes}
    least = 0 if packs.named(p) else 2  # what torch.export gives Dim.AUTO begins at 2
    return {s: max(n, least) for s, n in sizes.items()}


torch.backends.mkldnn.enabled = False  # its kernels of recurrences have no double


@contextlib.contextmanager
def unchecked():
    """What the program says with torch._check is not looked at."""
    own, torch._check = torch._check, lambda *args, **kwargs: None
    try:
        yield
    finally:
        torch._check = own


@quiet
def expectation(p, sizes, salt):
    try:
        made, _, outputs = p.replay(sizes, salt)
    except RuntimeError:
        if "torch._check(" not in p.source():
            raise
        with unchecked():  # data that the program refuses: the artifact must, too
            made, _, outputs = p.replay(sizes, salt)
            e = Expected(p, made, sizes)
        e.refused = True
        return e
    e = Expected(p, made, sizes)
    stable = all(same_bits(a, b) for a, b in zip(outputs, e.eager))
    return e if stable else None


class Check:
    """The programs of one pack that are still in it."""

    def __init__(self, tools, programs, watch=None):
        """watch: told which program eager runs; those that it has not come to when the time is over are left out."""
        self.tools, self.programs, self.watch = tools, list(programs), watch or Watch()
        self.verdicts = []
        self.expected = {}  # (program name, set) -> Expected
        self.counts = collections.Counter()

    def drop(self, p, kind, why="", sizes=None, salt=0):
        self.verdicts.append(Verdict(p, kind, why, sizes, salt))
        self.programs = [q for q in self.programs if q is not p]

    def run(self):
        self.evaluate()
        self.watch.at(None)
        self.export()
        if self.programs:
            self.accept()
            self.build_and_run(self.programs)
        return self.verdicts

    def evaluate(self):
        for p in list(self.programs):
            if self.watch.over():
                self.programs = [q for q in self.programs if (q.name, 0) in self.expected]
                break
            self.watch.at(p.data_seed)
            try:
                e = expectation(p, p.sizes, 0)
                if e is None:
                    self.drop(p, "unstable")
                else:
                    self.settle_states(p, e)
            except TooLarge as x:
                self.drop(p, "too large", str(x))
        for p in self.programs:
            self.watch.at(p.data_seed)
            for k in range(1, SETS):
                sizes = other_sizes(p, k)
                try:
                    e = expectation(p, sizes, k)
                except Exception as x:  # these sizes are not the program's
                    self.counts["sizes that eager refuses"] += 1
                    continue
                if e is not None:
                    self.expected[p.name, k] = e
                    if not self.runs_again(p, k):
                        del self.expected[p.name, k]

    def runs_again(self, p, k):
        """Does eager take the archive's constants and states, and its own states a second time?"""
        if not p.leaves("state", "const") or self.expected[p.name, k].refused:
            return True
        try:
            e = self.expected_here(p, k)
            if p.leaves("state"):
                self.after(p, e)
            return True
        except Exception:
            return False

    def settle_states(self, p, e):
        """States that eager does not run on a second time (indices that the program moves out of range) are inputs."""
        self.expected[p.name, 0] = e
        if p.leaves("state"):
            try:
                self.after(p, e)
            except Exception:
                if any(x.of for x in p.leaves()):
                    self.drop(p, "unstable", "a second run on states that share storage fails in eager")
                    return
                for x in p.leaves("state"):
                    x.role = "input"

    def made(self, programs):
        return {p.name: self.expected[p.name, 0].made for p in programs}

    def export(self):
        """Exports what is left; a program that torch.export does not take is left out, one whose named dims it does not take gets others."""
        while self.programs:
            try:
                self.ep = packs.export(self.programs, self.made(self.programs), self.tools.path("pack.pt2"))
                self.exported = [p.name for p in self.programs]
                misstated = self.misstated()
                if not misstated:
                    return
                for p in misstated:
                    self.drop(p, "export differs", "the archive states other sizes of a result than the program gives")
            except Exception as x:
                text = f"{type(x).__name__}: {x}"
                guilty = traced(self.programs, x) or named(self.programs, text)
                if guilty:
                    self.not_exported(guilty, text)
                else:
                    self.export_each(text)

    def misstated(self, k=0):
        """The programs for whose results the archive states other sizes than eager gives in set k (torch's own rule of sizes is wrong there, or
        a size of 1 takes another way: it is squeezed)."""
        nodes, out = {n.name: n for n in self.ep.graph.nodes}, []
        for (p, i), name in zip(packs.owners(self.programs)[0], self.ep.graph_signature.user_outputs):
            stated = nodes[name].meta["val"].shape if name in nodes else None
            if stated is None or p in out or (p.name, k) not in self.expected:
                continue
            own = self.expected[p.name, k].eager[i].shape
            if len(stated) != len(own) or any(isinstance(n, int) and n != m for n, m in zip(stated, own)):
                out.append(p)
        return out

    def not_exported(self, p, why):
        if "Constraints violated" in why and packs.named(p):
            p.named = False
        else:
            self.drop(p, "not exported", why)

    def export_each(self, why):
        good = True
        for p in list(self.programs):
            try:
                packs.export([p], self.made([p]), None)
            except Exception as x:
                self.not_exported(p, f"{type(x).__name__}: {x}")
                good = False
        if good:
            for p in list(self.programs):
                self.drop(p, "not exported", "only in a pack: " + why)

    def inputs(self, programs, sets):
        """Inputs of a call: sets[name] is the set that each program's come from."""
        return [self.expected[p.name, sets.get(p.name, 0)].made[x.name] for p in programs for x in p.leaves("input")]

    @quiet
    def accept(self):
        """Which sets of sizes the exported program takes: accepted[name, k]."""
        self.accepted = {}
        if not self.programs:
            return
        module = self.ep.module()
        saved = {name: t.clone() for name, t in module.named_buffers()}

        def taken(sets):
            try:
                with torch.no_grad():  # what calls write into states is not the next call's
                    for name, t in module.named_buffers():
                        t.copy_(saved[name])
                module(*[t.clone() for t in self.inputs(self.programs, sets)])
                return True
            except Exception as x:
                self.why = f"{type(x).__name__}: {str(x)[:300]}"
                return False

        if not taken({}):
            self.leave_out_broken()
            return self.accept()
        for k in range(1, SETS):
            for p in self.programs:  # no longer named: torch.export lets Dim.AUTO begin at 2, and its module does not look
                if (p.name, k) in self.expected and not packs.named(p) and any(n < 2 for n in self.expected[p.name, k].sizes.values()):
                    del self.expected[p.name, k]
            for p in self.misstated(k):  # no artifact has a result of another rank
                del self.expected[p.name, k]
            here = [p for p in self.programs if (p.name, k) in self.expected]
            if taken({p.name: k for p in here}):
                self.accepted.update({(p.name, k): True for p in here})
                continue
            for p in here:
                self.accepted[p.name, k] = taken({p.name: k})  # of fixed sizes, too: the export may have settled a number that is found in data
                if not self.accepted[p.name, k]:
                    self.counts["sizes that the archive refuses"] += 1

    @quiet
    def leave_out_broken(self):
        """What torch's own exported program does not take on the exported inputs: by halves, the rest as one archive again."""

        def broken(programs):
            try:
                packs.export(programs, self.made(programs), None).module()(*[t.clone() for t in self.inputs(programs, {})])
                return []
            except Exception:
                half = len(programs) // 2
                return programs if len(programs) == 1 else broken(programs[:half]) + broken(programs[half:])

        found = broken(self.programs) or list(self.programs)
        for p in found:
            self.drop(p, "not exported", "the exported program does not run: " + self.why)
        self.export()

    def build_and_run(self, programs):
        """Builds these as one artifact; in parts when that fails."""
        if not programs:
            return
        t = self.tools
        pt2, so = t.path("pack.pt2"), t.path("pack.so")
        if [p.name for p in programs] != self.exported:
            try:
                packs.export(programs, self.made(programs), pt2)
                self.exported = [p.name for p in programs]
            except Exception as x:
                for p in programs:
                    self.drop(p, "not exported", f"only in a part of a pack: {x}")
                return
        if os.path.exists(so):
            os.remove(so)
        keep = ["--keep", t.path("keep")] if t.emulate else []
        code, text = packs.aotc(t.aotc, "build", pt2, "-o", so, "--quiet", *t.flags, *keep, seconds=120 + 30 * len(programs), env=t.env)
        if code in (2, 6) or "libaotc_torch" in text or (code != 4 and "LibTorch" in text):
            raise RuntimeError(text)  # the machine, not the programs
        if code:
            if len(programs) == 1:
                self.drop(programs[0], "refused" if code == 4 else "build failed", f"exit {code}: {text}")
                return
            guilty = blamed(programs, text)
            for p, why in guilty:
                self.drop(p, "refused" if code == 4 else "build failed", f"exit {code}: {why}")
            if guilty:
                self.build_and_run([p for p in programs if not any(p is g for g, _ in guilty)])
            else:
                half = len(programs) // 2
                self.build_and_run(programs[:half])
                self.build_and_run(programs[half:])
            return
        self.calls(programs, so)

    def calls(self, programs, so):
        owners = packs.owners(programs)
        env = packs.on_emulated_gpu(self.tools) if self.tools.emulate else None
        bad = {}
        sets = [{}]
        for k in range(1, SETS):
            sets.append({p.name: k for p in programs if self.accepted.get((p.name, k))})
        refused = [(p, k) for p in programs for k in range(1, SETS) if self.accepted.get((p.name, k)) is False]
        while True:
            calls = [self.inputs(programs, s) for s in sets] + [self.inputs(programs, {p.name: k}) for p, k in refused]
            results, code, why = packs.run_calls(self.tools.runner, so, calls, self.tools.work, env=env)
            if len(results) < len(calls) or code:
                self.split(programs, f"runner ended with {code} {why} after {len(results)} of {len(calls)} calls", "crash")
                return
            failed = [(s, r) for s, r in zip(sets, results) if r.status]
            if not failed:
                break
            sets_left = []
            for s, r in zip(sets, results):
                guilty = named(programs, r.text) if r.status else None
                if guilty and guilty.name in s:  # and the others once more without it
                    kind = "refuses" if r.status > 0 else "crash"
                    bad.setdefault(guilty.name, (kind, f"status {r.status}: {r.text}", s[guilty.name]))
                    s = {n: k for n, k in s.items() if n != guilty.name}
                elif r.status and len(s) > 1:  # each by itself
                    sets_left += [{n: k} for n, k in s.items()]
                    continue
                elif r.status and s and len(programs) > 1:
                    ((name, k),) = s.items()
                    bad.setdefault(name, ("refuses" if r.status > 0 else "crash", f"status {r.status}: {r.text}", k))
                    continue
                elif r.status:
                    self.split(programs, f"status {r.status}: {r.text}", "refuses" if r.status > 0 else "crash")
                    return
                sets_left.append(s)
            sets = sets_left
        for s, r in zip(sets, results):
            for name, what, k in self.judge_call(programs, s, owners, r):
                bad.setdefault(name, (WRONG, what, k))
        for (p, k), r in zip(refused, results[len(sets) :]):
            if r.status == 0:
                bad.setdefault(p.name, ("accepts", "the exported program refuses these sizes, the artifact does not", k))
            elif r.status < 0:
                bad.setdefault(p.name, ("crash", r.text, k))
        for p in programs:
            self.counts["runs"] += 2 * sum(1 for s in sets if not s or p.name in s)
            if p.name in bad:
                kind, what, k = bad[p.name]
                if kind == WRONG and self.export_differs(p, k):
                    kind = "export differs"
                self.verdicts.append(Verdict(p, kind, what, self.expected[p.name, k].sizes, k))
            else:
                self.verdicts.append(Verdict(p, OK))

    def split(self, programs, why, kind):
        if len(programs) == 1:
            self.drop(programs[0], kind, why)
            return
        half = len(programs) // 2
        self.build_and_run(programs[:half])
        self.build_and_run(programs[half:])

    def judge_call(self, programs, sets, owners, result):
        """(program name, what is wrong, set) of each wrong program."""
        for p in programs:
            k = sets.get(p.name, 0)
            if k == 0 and sets:
                continue  # judged by the first call
            expected = self.expected_here(p, k)
            got = values(p, owners, result.runs[0])
            what = first_wrong(expected, got)
            if not what and result.runs[1]:
                again = values(p, owners, result.runs[1])
                if p.leaves("state"):
                    what = first_wrong(self.after(p, expected, got), again)
                else:
                    what = next((f"{key}: other bytes than" for key in got if packs.tensor_bytes(got[key]) != packs.tensor_bytes(again[key])), None)
                what = what and f"second run: {what} the first"
            if what:
                yield p.name, what, k

    def expected_here(self, p, k):
        """Constants and states are those of the archive."""
        return self.with_states(p, k) if k and p.leaves("state", "const") else self.expected[p.name, k]

    @quiet
    def with_states(self, p, k):
        given = dict(self.expected[p.name, k].made)
        given.update({x.name: self.expected[p.name, 0].made[x.name] for x in p.leaves("state", "const")})
        return Expected(p, given, self.expected[p.name, k].sizes)

    @quiet
    def after(self, p, expected, got=None):
        """What a second run must give: of the states that the artifact's first run left, `got`, which were right. Of those that share storage,
        and without `got`, of eager's, which differ by roundings."""
        given = dict(expected.made)
        states = {x.name for x in p.leaves("state")}
        own = got is not None and not any(x.of for x in p.leaves())
        given.update({name: got[name] if own and name in got else expected.live[name] for name in states})
        again = Expected(p, given, expected.sizes)
        if any(name in states and not exact and not (own and name in got) for name, exact in zip(expected.names, expected.exact)):
            again.exact = [False] * len(again.exact)  # the artifact's states have been rounded in its own way
        return again

    @quiet
    def export_differs(self, p, k):
        """Does torch's own exported program differ from the program?"""
        try:
            ep = packs.export([p], self.made([p]), None)
            out = ep.module()(*[t.clone() for t in self.inputs([p], {p.name: k})])
        except Exception:
            return True
        e = self.expected_here(p, k)
        return any(judge(e, i, t.contiguous()) for i, t in enumerate(out))


def values(p, owners, run):
    """Output number or name of a written leaf -> tensor, of one program."""
    users, inputs, states = owners
    out = {inputs[alias][1]: t for alias, t in run["outputs"] if alias >= 0 and inputs[alias][0] is p}
    out.update({k: t for (q, k), (_, t) in zip(users, [o for o in run["outputs"] if o[0] < 0]) if q is p})
    whole = {x.name: torch.view_as_complex for x in p.leaves("const", "state") if x.dtype.is_complex}  # states are given as parts
    out.update({states[name][1]: whole.get(states[name][1], lambda t: t)(t) for name, t in run["states"].items() if name in states and states[name][0] is p})
    return out


def first_wrong(expected, got):
    n = len(expected.program.outputs)
    shared = {x.of for x in expected.program.leaves()}
    for i, name in enumerate(expected.names):
        key = i if i < n else name
        if i >= n and key not in got and name in shared:
            continue  # the state has another name where the program reads no more than a view; the second run shows what it holds
        what = judge(expected, i, got[key]) if key in got else "is not given back"
        if what:
            return f"{name}: {what}"
    return None


def traced(programs, error):
    """The program whose function the error passed through."""
    names, tb = {p.name: p for p in programs}, error.__traceback__
    while tb:
        if tb.tb_frame.f_code.co_name in names:
            return names[tb.tb_frame.f_code.co_name]
        tb = tb.tb_next
    return None


def named(programs, text):
    """The program that a message names, by one of its inputs or dims."""
    names = {p.name: p for p in programs}
    found = {m for m in re.findall(r"(?<![A-Za-z0-9])p\d+(?=_)", text) if m in names}
    return names[found.pop()] if len(found) == 1 else None


def blamed(programs, text):
    """The programs that a message of aotc names by the source lines of their nodes, with what it says of each."""
    out = {}
    for line in text.split("\n"):
        for n in re.findall(r"from pack:(\d+) in forward", line):
            k = int(n) - packs.FIRST_CALL
            if 0 <= k < len(programs):
                out.setdefault(programs[k].name, []).append(line.strip())
    return [(p, " ".join(out[p.name])) for p in programs if p.name in out]
