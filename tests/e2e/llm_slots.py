"""samples/llm: drawn decoders of `transformers` as programs with slots, compiled, against the same decoders in eager.

    llm_slots.py --aotc BIN --work DIR [--count 8] [--seed 1] [--family NAME] [--cuda sm_90a]     # --cuda: on this machine's GPU

Each draws its heads, groups, widths, layers, windows, experts, slots, cache and chunk. Sequences of drawn lengths live in drawn slots, are fed in drawn pieces
beside each other, are truncated now and then, and continue greedily: every token must be that of eager's own forward, and its logits near. Every other one has
LoRA adapters of drawn ranks and layers, another one for each sequence: eager has them merged into its weights, by PEFT itself where that is installed.
"""
import argparse
import copy
import json
import os
import random
import subprocess
import sys

import numpy as np
import torch
import transformers as tf

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "..", "samples", "llm"), os.path.join(here, "..", "gpu")]
import adapters
import binding
import slots

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds

tf.logging.set_verbosity_error()


def moe(rng, experts, chosen):
    n = rng.choice([3, 4, 8])
    return {experts: n, chosen: rng.choice([1, 2])}


# name: what its configuration draws beside what all draw
FAMILIES = {
    "Llama": lambda r, dim: {},
    "Mistral": lambda r, dim: dict(sliding_window=r.randrange(2, 12), head_dim=dim),
    "Qwen2": lambda r, dim: dict(use_sliding_window=True, sliding_window=r.randrange(2, 12), max_window_layers=1),
    "Qwen3": lambda r, dim: dict(head_dim=dim),
    "Gemma2": lambda r, dim: dict(head_dim=dim, sliding_window=r.randrange(2, 12), query_pre_attn_scalar=dim),
    "Gemma3": lambda r, dim: dict(head_dim=dim, sliding_window=r.randrange(2, 12), layer_types=["sliding_attention", "full_attention", "sliding_attention"][:r.drawn_layers]),
    "Phi": lambda r, dim: dict(partial_rotary_factor=r.choice([0.5, 1.0])),
    "Phi3": lambda r, dim: dict(sliding_window=r.choice([None, 5])),
    "Olmo2": lambda r, dim: {},
    "Granite": lambda r, dim: dict(logits_scaling=r.choice([1.0, 3.0]), residual_multiplier=0.7, embedding_multiplier=2.0),
    "Cohere": lambda r, dim: dict(logit_scale=r.choice([0.25, 1.0])),
    "GPTNeoX": lambda r, dim: dict(use_parallel_residual=r.choice([True, False])),
    "StableLm": lambda r, dim: {},
    "Mixtral": lambda r, dim: dict(head_dim=dim, **moe(r, "num_local_experts", "num_experts_per_tok")),
    "Qwen2Moe": lambda r, dim: dict(moe_intermediate_size=16, shared_expert_intermediate_size=24, decoder_sparse_step=r.choice([1, 2]), **moe(r, "num_experts", "num_experts_per_tok")),
    "Qwen3Moe": lambda r, dim: dict(head_dim=dim, moe_intermediate_size=16, norm_topk_prob=r.choice([True, False]), **moe(r, "num_experts", "num_experts_per_tok")),
    "GptOss": lambda r, dim: dict(head_dim=dim, sliding_window=r.randrange(2, 12), **moe(r, "num_local_experts", "num_experts_per_tok")),
    "DeepseekV3": lambda r, dim: dict(n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16, q_lora_rank=16, kv_lora_rank=r.choice([8, 16]),
                                      qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=r.choice([8, 16]), first_k_dense_replace=1, same_heads=True),
}


def drawn(rng, family):
    groups, per_group, dim = rng.choice([1, 2, 3]), rng.choice([1, 2, 4]), rng.choice([8, 16])
    rng.drawn_layers = rng.choice([1, 2, 3])
    heads = groups * per_group
    config = dict(vocab_size=rng.randrange(60, 300), hidden_size=heads * dim, num_hidden_layers=rng.drawn_layers, num_attention_heads=heads, num_key_value_heads=groups,
                  intermediate_size=rng.choice([24, 40, 64]), max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.2,
                  tie_word_embeddings=rng.choice([True, False]))
    config.update(FAMILIES[family](rng, dim))
    if config.pop("same_heads", False):
        config["num_key_value_heads"] = heads
    made = getattr(tf, family + ("TextConfig" if family == "Gemma3" else "Config"))(**config)
    return getattr(tf, family + "ForCausalLM")(made).eval()


class Compiled:
    """The artifact as the callable that the program is."""

    def __init__(self, path):
        self.artifact = binding.Artifact(path).create()
        self.context = self.artifact.context()

    def write(self, states):
        api = self.artifact.api
        for name, array in states.items():
            self.artifact.check(api.state_write(self.context.handle, name.encode(), binding.tensors([array], [9])))

    def __call__(self, *arguments):
        inputs = binding.tensors([np.ascontiguousarray(a.numpy()) for a in arguments], [6] * len(arguments))
        out = self.context.output_arrays(inputs)
        self.context.run(inputs, binding.tensors(out, [9] * len(out)))
        return torch.from_numpy(out[0])


def save_adapter(rng, folder, program):
    """An adapter of drawn layers, ranks and scales, as PEFT saves it: the folder."""
    from safetensors.torch import save_file
    layers = adapters.adapted(program)
    names = sorted({path.rsplit(".", 1)[-1] for path in layers})
    names = rng.sample(names, rng.randrange(1, len(names) + 1))
    rank = rng.randrange(1, next(iter(layers.values())).rank + 1)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rng.choice([2, 8, 16]), "use_rslora": rng.choice([True, False]), "target_modules": names, "task_type": None,
              "base_model_name_or_path": None, "bias": "none", "alpha_pattern": {names[0]: 5} if rng.random() < 0.3 else {}}
    tensors = {}
    for path, layer in layers.items():
        if path.rsplit(".", 1)[-1] in names:
            tensors[f"base_model.model.{path}.lora_A.weight"] = torch.randn(rank, layer.linear.in_features) * 0.2
            tensors[f"base_model.model.{path}.lora_B.weight"] = torch.randn(layer.linear.out_features, rank) * 0.2
    os.makedirs(folder, exist_ok=True)
    save_file(tensors, os.path.join(folder, "adapter_model.safetensors"))
    with open(os.path.join(folder, "adapter_config.json"), "w") as f:
        json.dump(config, f)
    return folder


def merged(model, folder):
    """The model with the adapter in its weights."""
    model = copy.deepcopy(model)
    try:
        import peft
    except ImportError:
        config, tensors = adapters.read(folder)
        for name in tensors:
            if ".lora_A" in name:
                a, b, path = tensors[name], tensors[name.replace("lora_A", "lora_B")], name.removeprefix("base_model.model.").split(".lora_A")[0]
                alpha = config["alpha_pattern"].get(path.rsplit(".", 1)[-1], config["lora_alpha"])
                model.get_submodule(path).weight.data += alpha / (config["r"]**0.5 if config["use_rslora"] else config["r"]) * (b @ a)
        return model
    return peft.PeftModel.from_pretrained(model, folder).merge_and_unload().eval()


def serve(rng, run, models, program, chunk):
    """Sequences through the slots; returns how many tokens were compared. models: eager's, by the number of the adapter."""
    cache, vocabulary = program.positions, program.vocabulary
    free, live, compared, truth = list(range(program.slots)), [], 0, {}

    def eager(ids, adapter):
        key = (adapter, *ids)
        if key not in truth:
            with torch.no_grad():
                truth[key] = models[adapter](torch.tensor([ids]), use_cache=False).logits[0]
        return truth[key]

    waiting = [(rng.randrange(1, cache * 2 // 3), rng.randrange(1, 6)) for _ in range(program.slots + 3)]
    while waiting or live:
        while waiting and free:
            n, more = waiting.pop()
            live.append({"slot": free.pop(rng.randrange(len(free))), "ids": [rng.randrange(3, vocabulary) for _ in range(n)], "fed": 0, "more": more,
                         "adapter": rng.randrange(len(models))})
        rng.shuffle(live)
        batch = []
        for s in live[:rng.randrange(1, len(live) + 1)]:
            if s["fed"] and rng.random() < 0.1:
                s["fed"] = rng.randrange(s["fed"])  # earlier positions again
            left = len(s["ids"]) - s["fed"]
            batch.append((s, min(left, rng.choice([1, 1, chunk, rng.randrange(1, chunk + 1)]))))
        out = run(*slots.arguments([(s["slot"], s["fed"], s["ids"][s["fed"]:s["fed"] + n]) for s, n in batch],
                                   [s["adapter"] for s, _ in batch] if program.adapters else None))
        for (s, n), row in zip(batch, out):
            s["fed"] += n
            want = eager(s["ids"], s["adapter"])[s["fed"] - 1]
            scale = want.abs().max().item()
            if (row - want).abs().max().item() > 1e-4 * max(scale, 1):  # eager's own error may be as large
                with torch.no_grad():
                    truth64 = copy.deepcopy(models[s["adapter"]]).double()(torch.tensor([s["ids"]]), use_cache=False).logits[0, s["fed"] - 1]
                error, own = ((x - truth64).abs().max().item() for x in (row, want))
                assert error <= 2 * own, (s["fed"], error, own, scale)
            compared += 1
            if s["fed"] < len(s["ids"]):
                continue
            best = want.topk(2).values
            if best[0] - best[1] > 2e-4 * max(scale, 1):  # else eager itself may say either
                assert row.argmax() == want.argmax()
            s["more"] -= 1
            if s["more"] <= 0 or len(s["ids"]) >= cache - 1:
                live.remove(s)
                free.append(s["slot"])
            else:
                s["ids"].append(int(want.argmax()))
    return compared


def refusals():
    def refused(make, *words):
        try:
            make()
        except ValueError as e:
            assert all(w in str(e) for w in words), e
            return
        raise AssertionError(f"not refused: expected {words}")

    small = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    llama = lambda: tf.LlamaForCausalLM(tf.LlamaConfig(max_position_embeddings=32, **small))
    refused(lambda: slots.SlotDecoder(llama(), 2, 64), "a cache of 64", "32")
    refused(lambda: slots.export(slots.SlotDecoder(llama(), 2, 16), 16), "chunks of 16")
    refused(lambda: slots.SlotDecoder(llama(), 1, 16), "1 slots")
    refused(lambda: adapters.adapt(llama(), 0, 4), "0 adapters")
    refused(lambda: adapters.adapt(llama(), 2, 4, ["q_proj", "nowhere"]), "nowhere", "q_proj")
    refused(lambda: slots.SlotDecoder(tf.FalconForCausalLM(tf.FalconConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.5)), 2, 16), "something else")
    refused(lambda: slots.SlotDecoder(tf.Lfm2ForCausalLM(tf.Lfm2Config(layer_types=["conv", "full_attention"], num_key_value_heads=2, **small)), 2, 16), "conv")
    refused(lambda: slots.SlotDecoder(tf.MambaForCausalLM(tf.MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1)), 2, 16), "attention")
    print("ok   refusals", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--count", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--family")
    p.add_argument("--cuda", help="build for GPUs of this architecture")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    refusals()
    names = [o.family] if o.family else sorted(FAMILIES)
    random.Random(o.seed).shuffle(names)
    for i in range(o.count) if o.family else thirds.some(range(o.count), "drawn decoders in slots"):
        family, rng = names[i % len(names)], random.Random(f"{o.seed} {i}")
        torch.manual_seed(o.seed * 1000 + i)
        model = drawn(rng, family)
        cache, count = rng.randrange(16, 60), rng.randrange(2, 5)
        chunk = rng.randrange(2, min(cache, 17))
        if i % 2 == 0:
            adapters.adapt(model, rng.choice([1, 2, 3]), rng.choice([1, 4, 8]))
        program = slots.SlotDecoder(model, count, cache)
        path = os.path.join(o.work, f"decoder_{i}")
        torch.export.save(slots.export(program, chunk), path + ".pt2")
        with open(path + ".shapes.json", "w") as f:
            json.dump(slots.shapes(program, chunk), f)
        r = subprocess.run([o.aotc, "build", path + ".pt2", "--shapes", path + ".shapes.json", "-o", path + ".so", "--quiet",
                            *(["--states", "*.lora_a,*.lora_b"] if program.adapters else []), *(["--cuda", o.cuda] if o.cuda else [])], capture_output=True, text=True)
        assert r.returncode == 0, f"{family}: {r.stdout}{r.stderr}"
        compiled = Compiled(path + ".so")
        states = sorted(s.name.decode() for s in compiled.artifact.io(2))
        wanted = [f"cache.{l}.{part}" for l in range(len(program.cache)) for part in ("keys", "values")]
        wanted += [f"model.{layer}.lora_{part}" for layer in adapters.adapted(program) for part in "ab"]
        assert states == sorted(wanted), (states, wanted)
        model = drawn(random.Random(f"{o.seed} {i}"), family)  # one that attends in its own way
        model.load_state_dict({name.replace(".linear.", "."): x for name, x in program.model.state_dict().items() if ".lora_" not in name})
        models = [model]
        if program.adapters:
            folders = [save_adapter(rng, f"{path}.adapter_{n}", program) for n in range(program.adapters)]
            rows = [adapters.rows_of(program, folder) for folder in folders]
            compiled.write({name: torch.stack([torch.zeros_like(x)] + [r[name] for r in rows]).numpy() for name, x in rows[0].items()})
            models += [merged(model, folder) for folder in folders]
        compared = serve(rng, compiled, models, program, chunk)
        print(f"ok   {family}: {count} slots, cache {cache}, chunk {chunk}, {program.adapters} adapters, {compared} rows", flush=True)


if __name__ == "__main__":
    main()
