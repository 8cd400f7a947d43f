"""samples/tokenizer against the tokenizers library: small tokenizers of many families (tokenizer_families.py), drawn texts, ids and streams.

    tokenizer.py --chat PROGRAM --work DIR [--tokenize PROGRAM] [--fuzz PROGRAM] [--family NAME] [--tokenizer tokenizer.json] [--count 400]

--chat is samples/chat, compiled without libraries: it takes families without regular expressions and names what the others need. --tokenize is
tokenize.cpp with all libraries, --fuzz ../fuzz/tokenizer_fuzz.cpp. --tokenizer compares that file alone, instead of the families.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import unicodedata

try:
    from tokenizers import Tokenizer
except ImportError:
    print("tokenizers is not installed: skipped")
    sys.exit(77)

from tokenizer_families import FAMILIES, make

# Without what changed between the versions of Unicode that the libraries know: letters and numbers are here those of 14 and in the tokenizers library
# those of 16; its normalisation forms are those of 9.
FIRST = unicodedata.ucd_3_2_0
ASSIGNED = [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
ASSIGNED = [c for c in ASSIGNED if unicodedata.combining(c) == FIRST.combining(c) and unicodedata.decomposition(c) == FIRST.decomposition(c)]
MARKS = [c for c in ASSIGNED if unicodedata.combining(c)]
SENTENCES = ["The sea and the sky, we'll go under a bright wind 12 34 of stones; it's the IT'S HTTPServer getX2.", "Größe über naïve café déjà-vu — „so“ ‚ist‘ es…", "Привет, мир! Это ещё один день.",
             "今日は良い天気ですね。テスト、東京２０２４年", "中文字符，没有空格的句子。", "한국어 문장입니다, 그리고 다음", "مرحبا بالعالم ١٢٣ كيف", "नमस्ते दुनिया क्षत्रिय १२३", "שָׁלוֹם עולם", "สวัสดีชาวโลก",
             "😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 e\u0301a\u0323\u0302", "if x:\n\t\treturn  {'a': [1, 2.5e-3]}  # ok\r\n\r\n", "https://a.b/c?d=1&e=%20 <h1>x</h1> ÷×±≈ 𝔘𝔫𝔦 ﬁ ½ Å"]
CORNERS = ["", " ", "  a", "a  ", "\n\n x", "\n", "it's we'll I'd 've 'S 'Re 'ſ", " 's", "a\u00a0b", "\u3000x", "x\r\n", "\r\n\r\n\r\n", "1234 5 678", "12345678901234567890", "½²Ⅷ٣", "😀👩‍👩‍👧",
           "한국어 テスト 中文", "\t\tif x:\n        y", "e\u0301", "\u0301", "a\u0323\u0301\u0307", "..!? --", "'", " '", "'r", "a" * 500, " " * 300 + "z", " " * 64, "\n" * 40, "\x00a\x00", "\x01\x7f\x80\u200b\u180e\ufeff",
           "\u2581", "\u2581\u2581a \u2581", "<0x0A>", "a<0x41>", "\ufffd", "\U0010ffff", "ǅǈA aB ABc Xx", "가\u1100\u1161\u11a8", "\u0344\u212b\u2126", "!!", "!", "word words sword word", " ét  été"]


def drawn(rng, marks):
    def piece():
        kind = rng.randrange(12)
        if kind == 0:
            return "".join(rng.choice(ASSIGNED) for _ in range(rng.randrange(1, 6)))
        if kind == 1:
            return rng.choice([" ", "  ", "\n", "\t", "\u00a0", " \n ", "\u2003", "\x0b", "\x85", "\u200b", "\x1c", "\r\n", "\u180e", "\u2028", " " * rng.randrange(1, 12), "\n" * rng.randrange(1, 5)])
        if kind == 2:
            return rng.choice(["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'", "don't", "'LL", "'Ve"])
        if kind == 3:
            return str(rng.randrange(10**rng.randrange(1, 9)))
        if kind == 4:
            return "".join(rng.choice("etaoinshrdlu THE,.!xyab/") for _ in range(rng.randrange(1, 12)))
        if kind == 5:
            return rng.choice([*marks, *marks, "<|", "<", "!!", "<0xE2>", "<unk", "\u2581"])
        if kind == 6:
            return rng.choice("aeouAEOU \u00e9\u0105") + "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 5)))
        if kind == 7:
            return rng.choice("(){}[]=+-*/&%$#@^~`|\\\"';:,.?!_") * rng.randrange(1, 4)
        s = rng.choice(SENTENCES)
        begin = rng.randrange(len(s))
        return s[begin:begin + rng.randrange(1, 30)]
    return "".join(piece() for _ in range(rng.randrange(1, 12)))


def hexed(text):
    return "x" + (text if isinstance(text, bytes) else text.encode()).hex()


def run(program, path, lines):
    r = subprocess.run([program, path], input="\n".join(lines) + "\n", capture_output=True, text=True)
    assert r.returncode == 0, (path, r.returncode, r.stderr)
    out = r.stdout.split("\n")[:-1]
    assert len(out) == len(lines) + 1, (path, len(out), len(lines))
    return [int(x) for x in out[0].split()[1:]], out[1:]


def differs(wrong, path, *what):
    wrong.append(what)
    if len(wrong) <= 4:
        print("DIFFERS", os.path.basename(path), *(ascii(w) for w in what))


def check_ids(tokenize, path, oracle, texts, wrong):
    """Ids of whole texts; of bytes that are no UTF-8, of which U+FFFD is made."""
    inputs = [t.encode() for t in texts]
    rng = random.Random(7)
    for t in texts[::8]:
        b = bytearray(t.encode())
        for _ in range(rng.randrange(1, 4)):
            b.insert(rng.randrange(len(b) + 1), rng.choice([0x80, 0xc0, 0xe2, 0xed, 0xf0, 0xf5, 0xff, rng.randrange(256)]))
        inputs.append(bytes(b))
    prefix, out = run(tokenize, path, ["e " + hexed(b) for b in inputs])
    all_ids = []
    for b, line in zip(inputs, out):
        got, want = [int(x) for x in line.split()], oracle.encode(b.decode(errors="replace"), add_special_tokens=False).ids
        all_ids.append(want)
        if got != want:
            differs(wrong, path, b, got, want, [oracle.id_to_token(i) for i in want])
    marked, plain = oracle.encode("a").ids, oracle.encode("a", add_special_tokens=False).ids
    if prefix + plain != marked:
        differs(wrong, path, "prefix", prefix, marked, plain)
    return all_ids


def check_streams(tokenize, path, oracle, all_ids, wrong):
    """Texts of ids, whole and as the tokens come: what is shown before a token is not taken back."""
    rng = random.Random(9)
    size = oracle.get_vocab_size()
    lists = [*all_ids, *([rng.randrange(size) for _ in range(rng.randrange(1, 12))] for _ in range(150))]
    is_bytes = json.loads(oracle.to_str())["decoder"]["type"] == "ByteLevel"
    _, out = run(tokenize, path, ["d " + " ".join(map(str, ids)) for ids in lists])
    compared = 0
    for ids, line in zip(lists, out):
        pieces = [bytes.fromhex(w[1:]) for w in line.split()]
        got, want = b"".join(pieces).decode(errors="replace"), oracle.decode(ids, skip_special_tokens=True)
        # A run of byte tokens that is no UTF-8 is U+FFFD for each of its bytes to the library, which sees all of the run at once.
        if not is_bytes and "\ufffd" in want:
            continue
        compared += 1
        if got != want or len(pieces) != len(ids):
            differs(wrong, path, "text", ids, got, want, pieces)
    assert compared > len(lists) / 2, (path, compared, len(lists))


def check_parts(tokenize, path, oracle, texts, wrong):
    """What a client wrote gives no special tokens; without their texts in it, parts are one text."""
    tokens = [t for t in json.loads(oracle.to_str())["added_tokens"] if t["special"]]
    unknown = json.loads(oracle.to_str())["model"]["unk_token"]
    special = [t["content"] for t in tokens if t["content"] != unknown]
    ids = {oracle.token_to_id(t) for t in special}
    mark = special[-1]
    _, out = run(tokenize, path, ["p " + " ".join(map(hexed, (mark, t + special[0] + "x" + special[-1] + t, mark))) for t in texts[::4]])
    for line in out:
        got = [int(x) for x in line.split()]
        if sum(i in ids for i in got) != 2 or got[0] != oracle.token_to_id(mark) or got[-1] != got[0]:
            differs(wrong, path, "marks in a client's text", got)
    pairs = [(a, b) for a, b in zip(texts, texts[1:]) if not any(t["content"] in a + b for t in tokens)]
    _, out = run(tokenize, path, ["p " + " ".join(map(hexed, (mark + a, b, mark))) for a, b in pairs])
    for (a, b), line in zip(pairs, out):
        want = oracle.encode(mark + a + b + mark, add_special_tokens=False).ids
        if [int(x) for x in line.split()] != want:
            differs(wrong, path, "parts", a, b, line, want)


def check_chat(chat, path, oracle, texts):
    """samples/chat without libraries: the same ids, or what is missing, by its path."""
    texts = [t for t in texts if "\0" not in t]
    r = subprocess.run([chat, "--ids", path], input="\0".join(texts).encode() + b"\0", capture_output=True)
    if r.returncode:
        assert b"PCRE2" in r.stderr and b"pre_tokenizer" in r.stderr or b"utf8proc" in r.stderr and b"normalizer" in r.stderr, r.stderr
        return "refused without libraries"
    got = [[int(x) for x in line.split()] for line in r.stdout.decode().split("\n")[:-1]]
    assert got == [oracle.encode(t, add_special_tokens=False).ids for t in texts], path
    return "the same in samples/chat"


def check_large(tokenize, work):
    """100 kB of one word, of spaces, of marks: times grow with the size, not with its square (of processor time a square would take minutes)."""
    rng = random.Random(4)
    hard = ["".join(rng.choice("the sea and sky") for _ in range(100000)), " " * 100000, "a" * 100000, "\n " * 50000, "a" + "\u0301\u0323" * 50000, "1" * 100000, "é" * 50000, "<" * 100000, "'" * 100000,
            "世" * 30000, " a" * 50000 + " " * 1000]
    for name in ("llama3", "qwen2", "gpt_oss", "gemma", "llama2", "gpt2"):
        path = os.path.join(work, name + ".json")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        _, out = run(tokenize, path, ["e " + hexed(t) for t in hard])
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        assert seconds < 60, (name, seconds)
        oracle = Tokenizer.from_file(path)
        for t, line in zip(hard, out):
            assert [int(x) for x in line.split()] == oracle.encode(t, add_special_tokens=False).ids, (name, t[:20])
    print("ok   texts of 100 kB")


def check_refusals(tokenize, work):
    """What is not supported is named with its place."""
    base = json.load(open(os.path.join(work, "qwen2.json")))

    def refused(change, *words):
        j = json.loads(json.dumps(base))
        change(j)
        path = os.path.join(work, "changed.json")
        with open(path, "w") as f:
            json.dump(j, f)
        r = subprocess.run([tokenize, path], input="", capture_output=True, text=True)
        assert r.returncode == 1 and all(w in r.stderr for w in words), (words, r)

    refused(lambda j: j["model"].update(type="WordPiece"), "model.type: WordPiece is not supported")
    refused(lambda j: j["model"].update(type="Unigram"), "model.type: Unigram")
    refused(lambda j: j["model"].update(end_of_word_suffix="</w>"), "model.end_of_word_suffix")
    refused(lambda j: j["model"].update(continuing_subword_prefix="##"), "model.continuing_subword_prefix")
    refused(lambda j: j["model"].update(unk_token="<no>"), "model.unk_token", "<no>")
    refused(lambda j: j["model"]["merges"].append(["a", "never"]), "model.merges", "never")
    refused(lambda j: j["model"]["vocab"].update(a=-1), "model.vocab.a")
    refused(lambda j: j.update(normalizer={"type": "Lowercase"}), "normalizer.type: Lowercase", "NFC")
    refused(lambda j: j["pre_tokenizer"]["pretokenizers"].append({"type": "BertPreTokenizer"}), "pre_tokenizer.pretokenizers[2].type: BertPreTokenizer", "Metaspace")
    refused(lambda j: j["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="("), "pre_tokenizer.pretokenizers[0].pattern.Regex", "at byte 1")
    for regex, what in ((r"a{1,2}+", "{..}"), (r"[a[b]]", "set within"), (r"[a&&b]", "&&"), (r"\bx", r"\b"), (r"(?m:.)", "option m"), (r"\h", r"\h")):
        refused(lambda j: j["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=regex), "pre_tokenizer.pretokenizers[0].pattern.Regex", what)
    refused(lambda j: j["pre_tokenizer"]["pretokenizers"][0].update(behavior="Other"), "pre_tokenizer.pretokenizers[0].behavior")
    refused(lambda j: j.update(decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}), "decoder.type: WordPiece")
    refused(lambda j: j.update(decoder={"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}]}), "decoder.decoders[1].stop")
    refused(lambda j: j.update(post_processor={"type": "RobertaProcessing"}), "post_processor.type: RobertaProcessing")
    refused(lambda j: j["added_tokens"][0].update(id=1e12), "added_tokens[0].id")
    print("ok   refusals name their places")


def check_patient(tokenize, work):
    """An expression that takes time by a power of the text's length ends with an error, and the next text is taken."""
    j = json.load(open(os.path.join(work, "qwen2.json")))
    j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+b|(?:x|x)*y|."
    path = os.path.join(work, "slow.json")
    with open(path, "w") as f:
        json.dump(j, f)
    _, out = run(tokenize, path, ["e " + hexed(t) for t in ("a" * 5000, "x" * 60, "hello")])
    assert "takes too long" in out[0] and "takes too long" in out[1] and "error" not in out[2], out
    print("ok   expressions that never end")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--chat", required=True)
    p.add_argument("--tokenize")
    p.add_argument("--fuzz")
    p.add_argument("--work", required=True)
    p.add_argument("--family")
    p.add_argument("--tokenizer")
    p.add_argument("--count", type=int, default=400)
    p.add_argument("--seed", type=int, default=3)
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    failures = 0
    for name in [os.path.basename(o.tokenizer)] if o.tokenizer else [o.family] if o.family else FAMILIES:
        path = o.tokenizer or os.path.join(o.work, name + ".json")
        rng = random.Random(o.seed)
        if not o.tokenizer:
            make(name, [drawn(rng, []) for _ in range(300)] + SENTENCES * 5).save(path)
        oracle = Tokenizer.from_file(path)
        marks = [t["content"] for t in json.loads(oracle.to_str())["added_tokens"]]
        texts = CORNERS + SENTENCES + [drawn(rng, marks) for _ in range(o.count)]
        wrong, told = [], check_chat(o.chat, path, oracle, texts)
        if o.tokenize:
            ids = check_ids(o.tokenize, path, oracle, texts, wrong)
            check_streams(o.tokenize, path, oracle, ids, wrong)
            check_parts(o.tokenize, path, oracle, texts, wrong)
            told = f"{sum(map(len, ids))} tokens, {len(wrong)} differ; {told}"
        print(f"{'FAIL' if wrong else 'ok  '} {name}: {len(texts)} texts, {told}", flush=True)
        failures += len(wrong)
    if o.tokenize and not o.tokenizer and not o.family:
        check_large(o.tokenize, o.work)
        check_refusals(o.tokenize, o.work)
        check_patient(o.tokenize, o.work)
    if o.fuzz and not o.tokenizer and not o.family:
        failures += subprocess.run([o.fuzz, "600", "1", *(os.path.join(o.work, name + ".json") for name in FAMILIES)]).returncode != 0
    sys.exit(1 if failures else 0)


main()
