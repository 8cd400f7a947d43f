"""samples/chat's tokenizer against the tokenizers library on random unicode text: byte-level BPE trained here, with and without split digits.

    chat_tokenizer.py --chat PROGRAM --work DIR [--tokenizer tokenizer.json] [--count 2000]
"""
import argparse
import os
import random
import subprocess
import sys
import unicodedata

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError:
    print("tokenizers is not installed: skipped")
    sys.exit(77)

ASSIGNED = [c for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
CORNERS = ["", " ", "  a", "a  ", "\n\n x", "it's we'll I'd 've 'S", " 's", "a\u00a0b", "\u3000x", "x\r\n", "1234 5 678", "½²Ⅷ٣", "<|im_end|>", "a<|im_start|>b",
           "😀👩‍👩‍👧", "한국어 テスト 中文", "\t\tif x:\n        y", "e\u0301", "..!? --", "'", " '", "'r", "a" * 500, " " * 300 + "z"]


def text(rng):
    def piece():
        kind = rng.randrange(6)
        if kind == 0:
            return "".join(chr(rng.choice(ASSIGNED)) for _ in range(rng.randrange(1, 6)))
        if kind == 1:
            return rng.choice([" ", "  ", "\n", "\t", "\u00a0", " \n ", "\u2003", "\x0b", "\x85", "\u200b", "\x1c"])
        if kind == 2:
            return rng.choice(["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'", "don't"])
        if kind == 3:
            return str(rng.randrange(10**rng.randrange(1, 9)))
        if kind == 4:
            return "".join(rng.choice("etaoinshrdlu THE,.!") for _ in range(rng.randrange(1, 12)))
        return rng.choice(["<|im_start|>", "<|im_end|>", "<|", "!!", "naïve", "Größe", "привет", "日本"])
    return "".join(piece() for _ in range(rng.randrange(1, 12)))


def trained(path, digits, corpus):
    t = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=digits == "single"), byte_level]) if digits else byte_level
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                                      special_tokens=[AddedToken(x, special=True) for x in ("<|im_start|>", "<|im_end|>")]))
    t.save(path)


def check(chat, path, texts):
    oracle = Tokenizer.from_file(path)
    r = subprocess.run([chat, "--ids", path], input="\0".join(texts).encode() + b"\0", capture_output=True)
    assert r.returncode == 0, r.stderr
    got = [[int(x) for x in line.split()] for line in r.stdout.decode().split("\n")[:-1]]
    assert len(got) == len(texts), (len(got), len(texts))
    wrong = 0
    for t, g in zip(texts, got):
        want = oracle.encode(t, add_special_tokens=False).ids
        if g != want:
            wrong += 1
            if wrong <= 5:
                print("DIFFERS", path, ascii(t), g, want)
    print(f"{'ok  ' if not wrong else 'FAIL'} {os.path.basename(path)}: {len(texts)} texts, {sum(map(len, got))} tokens, {wrong} differ")
    return wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--chat", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--tokenizer")
    p.add_argument("--count", type=int, default=2000)
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    rng = random.Random(3)
    texts = CORNERS + [text(rng) for _ in range(o.count)]
    paths = [o.tokenizer] if o.tokenizer else []
    for digits in () if o.tokenizer else ("", "single", "runs"):
        paths.append(os.path.join(o.work, f"tokenizer_{digits or 'plain'}.json"))
        trained(paths[-1], digits, texts)
    sys.exit(1 if sum(check(o.chat, p, texts) for p in paths) else 0)


main()
