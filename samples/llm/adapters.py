"""LoRA adapters of a program with slots: loaded at run time, another one for each row of a run.

    adapt(model, count=8, rank=16)        before slots.SlotDecoder(model, ...), whose program then takes one input more:
    adapter [rows]                        int64: 0: none; 1 to count: the adapter of each row's sequence

A linear layer of the targets gives  linear(x) + (x @ lora_a[adapter]) @ lora_b[adapter]  with two buffers, zeros at first:
    PATH.lora_a [count + 1, in * rank], PATH.lora_b [count + 1, rank * out]      of the layer's type; row 0 stays zeros
The buffers are to be states of the artifact, `aotc build --states '*.lora_a,*.lora_b'`: writing row i of all of them loads adapter i, between two runs and
without a compiler (state_write_range).

    rows = rows_of(program, "folder/of/an/adapter")     what PEFT saved, as row i of each state: {name: tensor}
"""
import json
import os

import torch

from slots import Positions


class Adapted(torch.nn.Module):
    """A linear layer with adapters beside it."""

    def __init__(self, linear, count, rank):
        super().__init__()
        self.linear = linear
        self.count, self.rank = count, rank
        made = lambda size: torch.zeros(count + 1, size, dtype=linear.weight.dtype)
        self.register_buffer("lora_a", made(linear.in_features * rank))
        self.register_buffer("lora_b", made(rank * linear.out_features))

    @property
    def weight(self):  # models look at their layers' weights
        return self.linear.weight

    @property
    def bias(self):
        return self.linear.bias

    def forward(self, x):
        y = self.linear(x)
        which = Positions.adapter
        if which is None:
            return y
        a = self.lora_a.view(self.count + 1, self.linear.in_features, self.rank)
        b = self.lora_b.view(self.count + 1, self.rank, self.linear.out_features)
        return y + torch.bmm(torch.bmm(x, a[which]), b[which])


def targets_of(model, wanted):
    """Paths of the linear layers of the decoder that see [rows, tokens, width]: those whose last names are among `wanted`, or with None all."""
    seen, hooks = {}, []
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and module is not model.get_output_embeddings():
            hooks.append(module.register_forward_pre_hook(lambda m, x, path=path: seen.update({path: x[0].dim()})))
    with torch.no_grad():
        model(torch.zeros(2, 3, dtype=torch.long), use_cache=False)
    for hook in hooks:
        hook.remove()
    fitting = [path for path in seen if wanted is None or path.rsplit(".", 1)[-1] in wanted]
    if wanted is not None:
        for name in wanted:
            if not any(path.rsplit(".", 1)[-1] == name for path in fitting):
                raise ValueError(f"adapters for {name}: the model has no linear layer of that name. It has {', '.join(sorted({p.rsplit('.', 1)[-1] for p in seen}))}")
        flat = [path for path in fitting if seen[path] != 3]
        if flat:
            raise ValueError(f"adapters for {flat[0]}: it sees tokens of all rows in one (a layer of experts), which adapters of a row do not serve")
    fitting = [path for path in fitting if seen[path] == 3]
    if not fitting:
        raise ValueError("the model has no linear layers that see tokens row by row: adapters have no place")
    return fitting


def adapt(model, count, rank, targets=None):
    """Replaces layers of the model in place. Throws ValueError."""
    if count < 1 or rank < 1:
        raise ValueError(f"{count} adapters of rank {rank}: expected at least 1 of each")
    for path in targets_of(model.eval(), targets):
        parent, name = path.rsplit(".", 1)
        holder = model.get_submodule(parent)
        setattr(holder, name, Adapted(getattr(holder, name), count, rank))
    return model


def adapted(program):
    """The adapted layers of a program with slots, by their paths in the model."""
    return {path: module for path, module in program.model.named_modules() if isinstance(module, Adapted)}


def read(folder):
    """(config, tensors) that PEFT saved."""
    from safetensors.torch import load_file
    with open(os.path.join(folder, "adapter_config.json")) as f:
        config = json.load(f)
    return config, load_file(os.path.join(folder, "adapter_model.safetensors"))


def scale_of(config, path, rank):
    """What PEFT multiplies the product by: alpha / rank. The keys of patterns are the ends of paths."""
    alpha = next((v for k, v in (config.get("alpha_pattern") or {}).items() if path == k or path.endswith("." + k)), config["lora_alpha"])
    return alpha / (rank**0.5 if config.get("use_rslora") else rank)


def rows_of(program, folder):
    """{state: tensor}: what an adapter's row of each state holds, zeros where the adapter leaves a layer alone. Throws ValueError for one that does not fit."""
    config, tensors = read(folder)
    for name, plain in (("peft_type", "LORA"), ("use_dora", False), ("bias", "none"), ("modules_to_save", None), ("fan_in_fan_out", False)):
        if config.get(name, plain) not in (plain, None, []):
            raise ValueError(f"{folder}: {name} is {config[name]}: expected {plain}")
    layers, out = adapted(program), {}
    for path, layer in layers.items():
        out[f"model.{path}.lora_a"] = torch.zeros(layer.linear.in_features, layer.rank)
        out[f"model.{path}.lora_b"] = torch.zeros(layer.rank, layer.linear.out_features)
    for name, tensor in tensors.items():
        path, _, part = name.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".lora_")
        if path not in layers or part not in ("A", "B"):
            raise ValueError(f"{folder}: {name} is for a layer that the program has no adapters for. It has {', '.join(sorted({p.rsplit('.', 1)[-1] for p in layers}))}")
        layer, rank = layers[path], tensor.shape[0 if part == "A" else 1]
        if rank > layer.rank:
            raise ValueError(f"{folder}: {name} has rank {rank}, the program takes at most {layer.rank}")
        if tensor.shape[1 if part == "A" else 0] != (layer.linear.in_features if part == "A" else layer.linear.out_features):
            raise ValueError(f"{folder}: {name} is {list(tensor.shape)}, the layer has {layer.linear.in_features} inputs and {layer.linear.out_features} outputs")
        row = out[f"model.{path}.lora_{part.lower()}"]
        row[:rank if part == "B" else None, :rank if part == "A" else None] = tensor.float().T * (scale_of(config, path, rank) if part == "B" else 1)
    return {name: row.reshape(-1) for name, row in out.items()}
