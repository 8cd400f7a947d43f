"""Programs exported on CUDA build as those exported on the CPU. Without a GPU: CPU exports whose text is changed to what torch writes for modules
and inputs on cuda:0 (device fields of tensors, arguments, autocast regions) must give the same kernels, steps and weights, and verify.

    cuda_exports.py --aotc BIN --work DIR
"""
import json
import os
import subprocess
import sys
import warnings
import zipfile

import torch
from torch import nn

import arguments


class Devices(nn.Module):
    """Operators that take a device, and casts between devices."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))

    def forward(self, x):
        device = torch.device("cpu")
        y = self.linear(x) * self.scale + torch.full((8,), 2.0, device=device) + torch.arange(8, device=device)
        y = y + torch.zeros(x.shape[0], 8, device=device) + torch.ones_like(y, device=device) + torch.tensor([0.25], device=device)
        y = y.to(device).to(torch.float16).to(device=device, dtype=torch.float32) + torch.empty_like(y, device=device).fill_(1.5)
        with torch.autocast("cpu", enabled=False):
            y = y @ self.linear.weight
        return y + torch.eye(8, device=device)[:1], y.new_full((3,), 4.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.embedding = nn.Embedding(10, 8)

    def forward(self, image, tokens):
        x = self.conv(image).flatten(2).transpose(1, 2) + self.embedding(tokens).mean(1, keepdim=True)
        x = self.attention(x, x, x, need_weights=False)[0]
        return self.lstm(x)[0]


CASES = {
    "devices": (Devices, (torch.randn(4, 8),), {"x": {0: torch.export.Dim("batch", min=1, max=16)}}, False),
    "devices_decomposed": (Devices, (torch.randn(4, 8),), {"x": {0: torch.export.Dim("batch", min=1, max=16)}}, True),
    "net": (Net, (torch.randn(2, 3, 4, 4), torch.randint(0, 10, (2, 5))), None, False),
    "net_decomposed": (Net, (torch.randn(2, 3, 4, 4), torch.randint(0, 10, (2, 5))), None, True),
}


def on_cuda(v):
    """What torch writes where the tensor, the argument or the region is of cuda:0."""
    if isinstance(v, list):
        return [on_cuda(x) for x in v]
    if isinstance(v, dict):
        if v.get("type") == "cpu" and set(v) == {"type", "index"}:
            return {"type": "cuda", "index": 0}
        return {k: "cuda" if k == "as_string" and x == "cpu" else on_cuda(x) for k, x in v.items()}
    return v


def rewrite(source, target):
    changed = 0
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for item in before.infolist():
            data = before.read(item.filename)
            if item.filename.endswith(".json"):
                text = json.dumps(on_cuda(json.loads(data)))
                changed += text.count('"cuda"')
                data = text.encode()
            after.writestr(item, data)
    return changed


def run(*cmd):
    r = subprocess.run(cmd, capture_output=True, text=True)
    assert r.returncode == 0, f"{cmd}: exit {r.returncode}\n{r.stdout[-500:]}\n{r.stderr}"
    return r.stdout


def check(o, name):
    make, inputs, dims, decomposed = CASES[name]
    torch.manual_seed(0)
    plain, cuda = (os.path.join(o.work, f"{name}{kind}.pt2") for kind in ("", ".cuda"))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(make().eval(), inputs, dynamic_shapes=dims)
        torch.export.save(program.run_decompositions() if decomposed else program, plain)
    changed = rewrite(plain, cuda)
    assert changed > 10, changed
    explained = [json.loads(run(o.aotc, "explain", p, "--cpu", "avx2", "--json")) for p in (plain, cuda)]
    assert explained[0] == explained[1], "explain differs"
    reports = [json.loads(run(o.aotc, "build", p, "--cpu", "avx2", "-o", p[:-4] + ".so", "--json")) for p in (plain, cuda)]
    assert reports[0]["weights_bytes"] == reports[1]["weights_bytes"] > 0
    run(o.aotc, "verify", cuda[:-4] + ".so", "--against", cuda, "--samples", "2", "--quiet")
    print(f"ok   {name}: {changed} times cuda, {reports[1]['steps']} steps", flush=True)


def main():
    o = arguments.parse(names="names")
    failed = 0
    for name in o.names or CASES:
        try:
            check(o, name)
        except Exception as e:
            failed += 1
            print("FAIL", name, str(e)[:2000], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
