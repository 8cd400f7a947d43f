"""LoRA adapters of samples/llm_server (a part of llm_server.py)."""
import copy
import json
import os
import random
import shutil
import struct
import subprocess
import threading

import openai
import torch
import transformers


def save_adapter(folder, model, names, rank, seed, dtype=torch.float32, **config):
    """A LoRA adapter as PEFT saves it, and the model with it in its weights."""
    from safetensors.torch import save_file
    os.makedirs(folder, exist_ok=True)
    g = torch.Generator().manual_seed(seed)
    merged, tensors = copy.deepcopy(model), {}
    for path, layer in merged.named_modules():
        if path.rsplit(".", 1)[-1] in names:
            a, b = (torch.randn(size, generator=g).mul(0.25).to(dtype) for size in ((rank, layer.in_features), (layer.out_features, rank)))
            tensors[f"base_model.model.{path}.lora_A.weight"], tensors[f"base_model.model.{path}.lora_B.weight"] = a, b
            layer.weight.data += 16 / rank * (b.float() @ a.float())
    save_file(tensors, folder + "/adapter_model.safetensors", metadata={"format": "pt"})
    with open(folder + "/adapter_config.json", "w") as f:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 16, "target_modules": names, "bias": "none", **config}, f)
    return merged


def check_adapters(o, folder, model, start, greedy, refused):
    """Adapters by name: those of the start, others while it serves, beside each other and the model itself. start(options): a Server; greedy(model, ids, n): eager's
    text; refused(error, words, call)."""
    base = os.path.join(o.work, "adapters")
    at = lambda name: os.path.join(base, name)
    models = {"small": model, "sea": save_adapter(at("sea"), model, ["q_proj", "v_proj"], 4, 1),
              "sky": save_adapter(at("sky"), model, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], 8, 2, torch.bfloat16),
              "stone": save_adapter(at("stone"), model, ["down_proj"], 2, 3, torch.float16)}
    s = start("--adapter", "sea=" + at("sea"), "--adapter-folder", base)
    rng = random.Random(7)
    prompt = [rng.randrange(3, model.config.vocab_size) for _ in range(40)]  # the same for all: caches of one adapter are no other's
    want = {name: greedy(m, prompt, 24) for name, m in models.items()}
    assert len(set(want.values())) == len(want), want
    ask = lambda name, **k: s.client.completions.create(model=name, prompt=prompt, temperature=0, max_tokens=24, **k)
    answer = lambda name: ask(name).choices[0].text
    change = lambda verb, **body: s.post(f"/v1/{verb}_lora_adapter", json.dumps(body).encode())

    def changed(verb, status, words=(), **body):
        got, text = change(verb, **body)
        assert got == status and all(w in str(text) for w in words), (verb, body, got, text)

    for name in ("small", "sea", "small", "sea"):
        assert answer(name) == want[name], name
    changed("load", 200, lora_name="sky", lora_path="sky")
    assert [m.id for m in s.client.models.list()] == ["small", "sea", "sky"] and s.client.models.retrieve("sky").parent == "small"
    for _ in range(3):
        got, threads = {}, []
        for i, name in enumerate(("sea", "small", "sky", "sea", "sky", "small")):
            threads.append(threading.Thread(target=lambda i=i, name=name: got.update({i: (name, ask(name))})))
        [t.start() for t in threads]
        [t.join() for t in threads]
        for name, a in got.values():
            assert a.model == name and a.choices[0].text == want[name], (name, a)
        assert len(got) == 6
    changed("load", 400, ["in use"], lora_name="stone", lora_path="stone")
    changed("load", 400, ["loaded already"], lora_name="sky", lora_path="sky")
    stream = ask("sky", stream=True)  # keeps its adapter, and its row, to its end
    first = next(iter(stream)).choices[0].text
    changed("unload", 200, lora_name="sky")
    refused(openai.NotFoundError, ["model_not_found", '"sea"'], lambda: ask("sky"))
    assert first + "".join(p.choices[0].text for p in stream if p.choices) == want["sky"]
    s.idle()
    changed("load", 200, lora_name="stone", lora_path="stone")
    assert answer("stone") == want["stone"] and answer("sea") == want["sea"]
    changed("unload", 200, lora_name="stone")
    s.idle()
    # What does not fit leaves the row free.
    save_adapter(at("large"), model, ["q_proj"], 16, 4)
    save_adapter(at("dora"), model, ["q_proj"], 4, 4, use_dora=True)
    wide = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**model.config.to_dict(), "intermediate_size": 100}))
    save_adapter(at("wide"), wide, ["down_proj"], 4, 4)
    save_adapter(at("head"), model, ["lm_head"], 4, 4)
    whole = open(at("sky") + "/adapter_model.safetensors", "rb").read()
    broken = {"cut": whole[:len(whole) // 2], "empty": b"", "huge": b"\xff" * 8 + whole[8:], "garbage": whole[:8] + b"\xff" * (len(whole) - 8), "nested": struct.pack("<Q", 4000) + b"[" * 4000}
    for name, data in broken.items():
        shutil.copytree(at("sky"), at(name), dirs_exist_ok=True)
        with open(at(name) + "/adapter_model.safetensors", "wb") as f:
            f.write(data)
    cases = {"large": ["rank 16", "1 to 8"], "dora": ["use_dora"], "wide": ["another model"], "head": ["lm_head", "q_proj"], "nowhere": ["cannot be opened"], "../adapters/sky": ["below"], "/etc": ["below"]}
    for path, words in {**cases, **{name: ["adapter_model.safetensors"] for name in broken}}.items():
        changed("load", 400, words, lora_name="x", lora_path=path)
    changed("load", 400, ["own name"], lora_name="small", lora_path="sky")
    changed("load", 400, ["lora_path"], lora_name="x")
    changed("unload", 404, lora_name="x")
    changed("load", 200, lora_name="sky", lora_path="sky")
    assert answer("sky") == want["sky"]
    s.stop()
    r = subprocess.run([o.server, folder + "/model.so", "--port", "0", "--adapter", "big=" + at("large")], capture_output=True, text=True, timeout=120)
    assert r.returncode == 1 and "rank 16" in r.stderr, (r.returncode, r.stderr)
    print("ok   adapters: by name, beside each other, loaded and unloaded under way; what does not fit is refused", flush=True)
