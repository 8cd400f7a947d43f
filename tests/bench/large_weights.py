"""A decoder whose weights are larger than memory, as an archive: large_weights.py OUT.pt2 SCRATCH [--shape 70b] [--layers N]

Weights lie in sparse files of the folder SCRATCH, each with 2,048 random numbers at its beginning and zeros behind them, so that no two are equal and a file system that
compresses holds them: the export needs a few GB of memory. Also writes OUT.json, sizes for `aotc build --shapes`. Needs torch and transformers.
"""
import argparse, json, os, time, warnings

warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

# hidden, layers, heads, key heads, inner, vocabulary
SHAPES = {"70b": (8192, 80, 64, 8, 28672, 128256), "8b": (4096, 32, 32, 8, 14336, 128256), "tiny": (256, 2, 8, 4, 512, 1000)}


class Last(torch.nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids, cache_position):
        return self.decoder(input_ids=input_ids, cache_position=cache_position)[:, -1:]


def stored(folder, number, like):
    """A parameter of the shape of `like` in a file of its own."""
    values = torch.from_file(os.path.join(folder, f"{number}.bin"), shared=True, size=like.numel(), dtype=torch.bfloat16)
    some = values[:2048]
    some.copy_(torch.randn(some.shape) * 0.02)
    return torch.nn.Parameter(values.view(like.shape), requires_grad=False)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("out"), args.add_argument("scratch"), args.add_argument("--shape", default="70b", choices=SHAPES)
    args.add_argument("--layers", type=int), args.add_argument("--cache", type=int, default=2048)
    o = args.parse_args()
    hidden, layers, heads, key_heads, inner, vocabulary = SHAPES[o.shape]
    layers = o.layers or layers
    cfg = transformers.LlamaConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=key_heads, intermediate_size=inner, vocab_size=vocabulary,
                                   max_position_embeddings=o.cache, rope_theta=500000.0, head_dim=hidden // heads, attn_implementation="sdpa", dtype=torch.bfloat16)
    os.makedirs(o.scratch, exist_ok=True)
    torch.manual_seed(0)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(cfg).to(torch.bfloat16).eval()
    number = 0
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, stored(o.scratch, number, parameter))
            number += 1
    model.model.rotary_emb = LlamaRotaryEmbedding(cfg)
    model.generation_config.use_cache, model.generation_config.cache_implementation = True, "static"
    decoder = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=o.cache).model
    seq = torch.export.Dim("seq", min=1, max=o.cache - 1)
    start = time.time()
    program = torch.export.export(Last(decoder), (), {"input_ids": torch.zeros(1, 8, dtype=torch.long), "cache_position": torch.arange(8)},
                                  dynamic_shapes={"input_ids": {1: seq}, "cache_position": {0: seq}}, strict=False)
    torch.export.save(program, o.out)
    with open(os.path.splitext(o.out)[0] + ".json", "w") as f:
        json.dump({"dims": {"seq": {"min": 1, "max": o.cache - 1, "tune": [1, 128, 512]}}, "inputs": {"input_ids": {"shape": [1, "seq"]}, "cache_position": {"shape": ["seq"]}},
                   "variants": [{"seq": 1}, {"seq": {"min": 2, "max": o.cache - 1}}]}, f)
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "archive_gb": round(os.path.getsize(o.out) / 1e9, 2), "export_s": round(time.time() - start, 1)}))


main()
