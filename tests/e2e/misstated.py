#!/usr/bin/env python3
"""Archives that state sizes or types which their operators do not give are built for those that ep.module() gives.

torch 2.11 says of the states of an LSTM of fixed sizes, where oneDNN has the layer, that they have a dim of 1 behind the first, and computes
the sizes of all that follows from that; of the places and counts of equal rows that they have the rows' type, and of sums of weights that they are integers. Such archives are made here of
today's by writing that into their text.
"""
import json, os, subprocess, sys, warnings, zipfile

import arguments

warnings.filterwarnings("ignore")

LAYERS, BATCH, WIDTH, CLASSES = 2, 3, 5, 4


def net(torch, directions):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(6, WIDTH, LAYERS, bidirectional=directions == 2)
            self.head = torch.nn.Linear(WIDTH, CLASSES)

        def forward(self, x, h, c):
            y, (h, c) = self.lstm(x, (h, c))
            last = h[-1]
            return y, h, c, self.head(last), c.sum(1), torch.cat([h, c], 0), h.index_select(2, torch.tensor([4, 1]))

    return Net().eval().requires_grad_(False)


def equal_rows(torch):
    class Rows(torch.nn.Module):
        def forward(self, x):
            rows, places, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
            return rows, places, counts, places + 1, x[places[:3]]

    return Rows()


def sums_of_weights(torch):
    class Sums(torch.nn.Module):
        def forward(self, x, few, many):
            a, b, c = torch.bincount(x, few), torch.bincount(x, many), torch.bincount(x, x)
            for y in (a, b, c):
                torch._check(y.shape[0] <= 10)
            return a, b, c

    return Sums()


def misstate(path, to, sizes, types={}):
    """The archive with other sizes of the tensors that `sizes` names: {name: sizes}; other types (numbers of the schema) by `types`."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename.endswith("models/model.json"):
                model = json.loads(data)
                tensors = model["graph_module"]["graph"]["tensor_values"]
                for name, dims in sizes.items():
                    tensors[name]["sizes"] = [{"as_int": n} for n in dims]
                    tensors[name]["strides"] = [{"as_int": 1}] * len(dims)
                for name, number in types.items():
                    tensors[name]["dtype"] = number
                data = json.dumps(model).encode()
            new.writestr(item, data)


def misstated_sizes(ep, outputs):
    """What a dim too many of the LSTM's states makes of the sizes of all that follows."""
    import torch

    values, told = {}, {}
    for node in ep.graph.nodes:
        read = lambda a: values.get(a.name) if isinstance(a, torch.fx.Node) else a
        if node.op in ("placeholder", "get_attr"):
            values[node.name] = torch.zeros([int(n) for n in node.meta["val"].shape], dtype=node.meta["val"].dtype) if hasattr(node.meta["val"], "shape") else node.meta["val"]
        elif node.op == "call_function":
            arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), read)
            value = node.target(*arguments, **keywords)
            if node.target is torch.ops.aten.lstm.input:
                value = (value[0], value[1].unsqueeze(1), value[2].unsqueeze(1))
            values[node.name] = value
            if isinstance(value, torch.Tensor) and tuple(value.shape) != tuple(node.meta["val"].shape):
                told[node.name] = list(value.shape)
    return told


def built(o, so, path):
    for command in (["build", path, "-o", so, "--quiet"], ["verify", so, "--against", path, "--samples", "2"]):
        r = subprocess.run([o.aotc, *command], capture_output=True, text=True)
        if r.returncode:
            print(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
            return False
    return True


def main():
    o = arguments.parse()
    import torch

    faults = 0
    ep = torch.export.export(equal_rows(torch), (torch.randint(0, 3, (6, 2)).float(),))
    plain, path, so = (os.path.join(o.work, f"rows{end}") for end in (".plain.pt2", ".pt2", ".so"))
    torch.export.save(ep, plain)
    places = [n for n in ep.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor) and n.meta["val"].dtype == torch.int64]
    assert len(places) >= 3, ep.graph
    misstate(plain, path, {}, {n.name: 7 for n in places})
    faults += not built(o, so, path)
    ep = torch.export.export(sums_of_weights(torch), (torch.randint(0, 9, (20,)), torch.randn(20), torch.randn(20, dtype=torch.float64)))
    plain, path, so = (os.path.join(o.work, f"sums{end}") for end in (".plain.pt2", ".pt2", ".so"))
    torch.export.save(ep, plain)
    sums = [n.name for n in ep.graph.nodes if n.target is torch.ops.aten.bincount.default]
    assert len(sums) == 3, ep.graph
    misstate(plain, path, {}, {name: 5 for name in sums})
    faults += not built(o, so, path)
    for directions in (1, 2):
        torch.manual_seed(directions)
        states = (LAYERS * directions, BATCH, WIDTH)
        model, args = net(torch, directions), (torch.randn(7, BATCH, 6), torch.randn(states), torch.randn(states))
        ep = torch.export.export(model, args)
        plain, path, so = (os.path.join(o.work, f"lstm{directions}{end}") for end in (".plain.pt2", ".pt2", ".so"))
        torch.export.save(ep, plain)
        sizes = misstated_sizes(ep, args)
        assert len(sizes) >= 6, sizes
        misstate(plain, path, sizes)
        if not built(o, so, path):
            faults += 1
        else:
            told = json.loads(subprocess.run([o.aotc, "inspect", so, "--json"], capture_output=True, text=True, check=True).stdout)
            have, due = [x["shape"] for x in told["outputs"]], [list(t.shape) for t in ep.module()(*args)]
            if have != due:
                faults += 1
                print(f"lstm of {directions} directions: outputs {have}, ep.module() gives {due}")
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
