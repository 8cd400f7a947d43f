"""Writes the archives and results that the import tests read: run with the Python of packaging/setup.sh, in this folder.

tiny.pt2         torch.export.save: symbols, mutation, aliases, strides, constants, cond, no_grad, keyword inputs
tiny.legacy.pt2  the same program in the layout that torch.export.save wrote before 2.8
tiny.out<i>.bin  what PyTorch computes for the sample inputs
Paths of the machine are cut out of the stack traces, so that the files do not depend on where they were made.
"""
import io
import re
import zipfile

import torch
from torch._export.serde.serialize import serialize


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.register_buffer("strided", torch.arange(12.0).reshape(3, 4).t())
        self.register_buffer("calls", torch.zeros(1), persistent=False)
        self.view = self.strided[1:]

    def forward(self, x, extra, k=2, *, ids):
        self.calls.add_(1)
        n = x.shape[0]
        with torch.no_grad():
            y = self.a(x)
        z = self.b(y) + extra["scale"] * k + self.strided.sum() + self.view.sum() + torch.tensor(3.5)
        z = z + torch.nn.functional.embedding(ids, self.strided)[:, :1]
        sizes = torch.full((max(n, 5) * 2 + n // 2, n % 3 + 2), self.calls.shape[0])
        left, right = torch.split(z, [1, 3], dim=1)
        flat = x.reshape(-1)[: n * 2]
        chosen = torch.cond(x.sum() > 0, lambda q: q + 1, lambda q: q - 1, (z,))
        return {"z": z, "sizes": sizes, "parts": (left, right), "n": n * 4, "flat": flat, "chosen": chosen, "half": z.half() * (n / 8)}


def scrub(text):
    text = re.sub(r'File \\"[^"\\]*/site-packages/', r'File \\"/python/site-packages/', text)
    return re.sub(r'File \\"/(?!python/)[^"\\]*/([^/"\\]+)\\"', r'File \\"\1\\"', text)


def rewrite(source, target):
    with zipfile.ZipFile(source) as src, zipfile.ZipFile(target, "w") as dst:
        for item in src.infolist():
            data = src.read(item)
            if item.filename.endswith("/models/model.json"):
                data = scrub(data.decode()).encode()
            dst.writestr(zipfile.ZipInfo(item.filename), data)


torch.manual_seed(0)
model = Tiny().eval()
args = (torch.randn(4, 4), {"scale": torch.randn(4)}, 2)
kwargs = {"ids": torch.tensor([3, 0, 2, 1])}
batch = torch.export.Dim("batch", min=2, max=64)
shapes = {"x": {0: batch}, "extra": {"scale": None}, "k": None, "ids": {0: batch}}
program = torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
buffer = io.BytesIO()
torch.export.save(program, buffer)
rewrite(io.BytesIO(buffer.getvalue()), "tiny.pt2")

artifact = serialize(program)
with zipfile.ZipFile("tiny.legacy.pt2", "w") as z:
    z.writestr(zipfile.ZipInfo("serialized_exported_program.json"), scrub(artifact.exported_program.decode()))
    z.writestr(zipfile.ZipInfo("serialized_state_dict.pt"), artifact.state_dict)
    z.writestr(zipfile.ZipInfo("serialized_constants.pt"), artifact.constants)
    z.writestr(zipfile.ZipInfo("serialized_example_inputs.pt"), artifact.example_inputs)
    z.writestr(zipfile.ZipInfo("version"), "8.8")

outputs = torch.utils._pytree.tree_leaves(Tiny.forward(model, *args, **kwargs))
for i, value in enumerate(outputs):
    value = torch.as_tensor(value)
    with open(f"tiny.out{i}.bin", "wb") as f:
        f.write(value.detach().contiguous().numpy().tobytes())
