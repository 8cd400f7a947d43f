"""Tokenizers as model families configure them, trained small: facts of their tokenizer.json files, by name.

make(name, corpus) gives a Tokenizer of the tokenizers library.
"""
import json

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}",
                  r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = "".join([r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*""", r"|\s*[\r\n]+|\s+(?!\S)|\s+"])

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WORDS = {**BYTES, "use_regex": True}
SPACE = "\u2581"


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def pre(*steps):
    return sequence("pretokenizers", *steps)


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def begins_with(token, *end):
    special = [{"SpecialToken": {"id": token, "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": special + [{"Sequence": {"id": "A", "type_id": 0}}] + [{"SpecialToken": {"id": t, "type_id": 0}} for t in end],
            "pair": special + [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": [token, *end]}


FROM_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
FROM_PIECES = [replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
METASPACE = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PIECES = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}


def byte_level(pre_tokenizer, special=CHATML, normalizer=None, post=None, **model):
    return {"special": special, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": FROM_BYTES, "post_processor": post or FROM_BYTES, "model": model}


def pieces(normalizer, pre_tokenizer, decoder, special=("<unk>", "<s>", "</s>"), post="<s>", **more):
    return {"special": list(special), "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder, "post_processor": begins_with(post), "model": PIECES, **more}


def added(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


# What a family's file has beside the vocabulary. "added": tokens that are added after training.
FAMILIES = {
    "gpt2": byte_level(WORDS),
    "smollm2": byte_level(pre({"type": "Digits", "individual_digits": True}, WORDS)),
    "digit_runs": byte_level(pre({"type": "Digits", "individual_digits": False}, WORDS)),
    "olmo": byte_level({**WORDS, "add_prefix_space": True}, normalizer={"type": "NFC"}),
    "llama3": byte_level(pre(split(LLAMA3), BYTES), special=["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
                         post=sequence("processors", FROM_BYTES, begins_with("<|begin_of_text|>")), ignore_merges=True),
    "qwen2": {**byte_level(pre(split(QWEN2), BYTES), normalizer={"type": "NFC"}), "added": [added("<tool_call>"), added("</think>")]},
    "gpt_oss": byte_level(pre(split(O200K), BYTES), special=["<|startoftext|>", "<|start|>", "<|message|>", "<|end|>", "<|return|>"]),
    "phi4": byte_level(pre(split(GPT4, "Removed", invert=True), BYTES), special=CHATML, ignore_merges=True),
    "deepseek3": byte_level(pre(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), BYTES),
                            special=["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"],
                            post=begins_with("<\uff5cbegin\u2581of\u2581sentence\uff5c>"), normalizer=sequence("normalizers")),
    "granite": byte_level(pre({"type": "Digits", "individual_digits": True}, WORDS), special=["<|end_of_text|>", "<fim_prefix>"]),
    "falcon": byte_level(pre({"type": "Punctuation", "behavior": "Contiguous"}, WORDS, {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))),
    "gemma": pieces(replace(" ", SPACE), split(" ", "MergedWithPrevious", kind="String"), sequence("decoders", *FROM_PIECES),
                    special=["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], post="<bos>",
                    added=[added("\n\n"), added(SPACE * 2), added(SPACE * 4), added("<h1>"), added("<table>")]),
    "llama2": pieces(sequence("normalizers", {"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)), None, sequence("decoders", *FROM_PIECES, STRIP)),
    "mistral": pieces(None, METASPACE, sequence("decoders", *FROM_PIECES, STRIP), special=["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]),
    "phi3": pieces(sequence("normalizers", {"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)), None, sequence("decoders", *FROM_PIECES, STRIP),
                   special=["<unk>", "<s>", "<|endoftext|>", "<|user|>"],
                   added=[added("</s>", rstrip=True), added("<|assistant|>", special=True, rstrip=True), added("<|end|>", special=True, rstrip=True),
                          added("<|left|>", special=True, lstrip=True)]),
    # Parts that no family above has.
    "metaspace": pieces(None, {**METASPACE, "prepend_scheme": "always", "split": True}, {**METASPACE, "prepend_scheme": "always", "split": True}),
    "metaspace_never": pieces(None, {**METASPACE, "prepend_scheme": "never", "split": True}, sequence("decoders", {**METASPACE, "prepend_scheme": "never"}, {"type": "ByteFallback"})),
    "some_bytes": pieces(None, METASPACE, sequence("decoders", *FROM_PIECES, STRIP), bytes=range(0x80, 0xf0)),
    "unknown": {**pieces({"type": "NFD"}, {"type": "WhitespaceSplit"}, sequence("decoders", *FROM_PIECES)), "model": {"unk_token": "<unk>", "fuse_unk": False}},
    "unknown_fused": {**pieces({"type": "NFKC"}, {"type": "Whitespace"}, sequence("decoders", *FROM_PIECES)), "model": {"unk_token": "<unk>", "fuse_unk": True}},
    "behaviors": byte_level(pre(split(r"\n", "Removed"), split(r"[.,a-m]", "MergedWithPrevious"), BYTES)),
    "behaviors_inverted": byte_level(pre(split(r"[ \n]", "MergedWithNext", invert=True), split("e", "Contiguous", kind="String"), split(r"[0-9A-Z]+", "Removed"), BYTES)),
    "empty_matches": byte_level(pre(split(r"x*", "MergedWithPrevious"), split(r"y*", "MergedWithNext", invert=True), BYTES)),
    "normalized": {**byte_level(pre(split(" ", "MergedWithNext", kind="String"), split(r"\d\w*", "Contiguous"), split(r"[aeiou]+", "MergedWithPrevious"), BYTES),
                                normalizer=sequence("normalizers", replace("!", "??"), {"type": "Replace", "pattern": {"Regex": "[xy]+|ab"}, "content": "ba"}, {"type": "NFKD"})),
                   "added": [added("!!", normalized=True), added("word", normalized=True, single_word=True), added("\u00e9t", normalized=True, lstrip=True, rstrip=True), added("  ", rstrip=True)]},
}


def make(name, corpus, vocab_size=1200):
    f = FAMILIES[name]
    learner = Tokenizer(models.BPE(**{k: v for k, v in f["model"].items() if k != "ignore_merges"}))
    is_bytes = f["decoder"] is FROM_BYTES
    fallback = [f"<0x{b:02X}>" for b in f.get("bytes", range(256))] if f["model"].get("byte_fallback") else []
    # Tokens learned across words: those that a text must not have where it is cut into words.
    normalizer = replace(" ", SPACE) if (f["pre_tokenizer"] or {}).get("type") == "Metaspace" else f["normalizer"]
    if is_bytes:
        learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if normalizer:
        file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": None, "post_processor": None, "decoder": None}
        learner.normalizer = Tokenizer.from_str(json.dumps({**file, "normalizer": normalizer, "model": {"type": "BPE", "vocab": {}, "merges": []}})).normalizer
    alphabet = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()} if is_bytes else {"limit_alphabet": 120}
    special = [AddedToken(x, special=True) for x in [*f["special"], *fallback]]
    learner.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocab_size + len(fallback), show_progress=False, special_tokens=special, **alphabet))
    j = json.loads(learner.to_str())
    if f["model"].get("ignore_merges"):  # words that merges alone do not make
        j["model"]["merges"] = [m for i, m in enumerate(j["model"]["merges"]) if i % 5]
    j["added_tokens"] = [t for t in j["added_tokens"] if t["content"] not in fallback]
    size = len(j["model"]["vocab"])
    for t in f.get("added", []):
        j["added_tokens"].append({"id": j["model"]["vocab"].get(t["content"], size), **t})
        size += t["content"] not in j["model"]["vocab"]
    post = json.loads(json.dumps(f["post_processor"]))
    for each in post.get("processors", [post]):
        if "special_tokens" in each:
            each["special_tokens"] = {t: {"id": t, "ids": [j["model"]["vocab"][t]], "tokens": [t]} for t in each["special_tokens"]}
    j.update(normalizer=f["normalizer"], pre_tokenizer=f["pre_tokenizer"], decoder=f["decoder"], post_processor=post)
    j["model"].update(f["model"])
    return Tokenizer.from_str(json.dumps(j))
