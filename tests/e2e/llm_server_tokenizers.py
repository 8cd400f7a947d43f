"""Other tokenizers of samples/llm_server, of the same artifact (a part of llm_server.py): pieces with bytes, and words by a regular expression."""
import json
import os
import random
import sys

import torch
import transformers

from tokenizer_families import make

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "llm"))
import chat_template  # noqa: E402
import export  # noqa: E402

LLAMA2 = ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] | trim }} [/INST]{% else %} {{ m['content'] | trim }} {{ eos_token }}"
          "{% endif %}{% endfor %}")
LLAMA3 = ("{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
          "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}")
# family, tokens beside those of bytes, begin, end, template
CASES = [("llama2", 40, "<s>", "</s>", LLAMA2), ("llama3", 320, "<|begin_of_text|>", "<|eot_id|>", LLAMA3)]


def text_of(tokenizer, ids, begins):
    """Of the tokens' bytes; the library's text where it says the same of bytes that are no UTF-8."""
    backend = tokenizer.backend_tokenizer
    ids = [i for i in ids if i not in tokenizer.all_special_ids and backend.id_to_token(i) is not None]  # the model has more rows
    if json.loads(backend.to_str())["decoder"]["type"] == "ByteLevel":
        return backend.decode(ids)
    data = b""
    for t in (backend.id_to_token(i) for i in ids):
        data += bytes([int(t[3:5], 16)]) if len(t) == 6 and t.startswith("<0x") else t.replace("\u2581", " ").encode()
    text = data.decode(errors="replace")
    text = text[1:] if begins and text.startswith(" ") else text
    library = backend.decode(ids)
    assert "\ufffd" in library or not begins or library == text, (library, text)
    return text


def check_tokenizers(o, folder, model, server):
    rng = random.Random(2)
    corpus = [" ".join(rng.choice("the sea and sky grüße 世界 of stones under a bright wind 12 345 ; we'll go {\"a\": [1, true]}".split()) for _ in range(40)) for _ in range(50)]
    for family, size, begin, end, template in CASES:
        t = make(family, corpus, size)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token=begin, eos_token=end)
        tokenizer.chat_template = template
        assert len(tokenizer) <= model.config.vocab_size, len(tokenizer)
        prefix, (pieces, why) = export.prefix_of(tokenizer), chat_template.pieces(tokenizer)
        assert prefix == [tokenizer.bos_token_id] and pieces, (prefix, why)
        other = os.path.join(o.work, family)
        os.makedirs(other, exist_ok=True)
        described = json.load(open(os.path.join(folder, "server.json")))
        described.update(prefix=prefix, ends=[tokenizer.eos_token_id], chat=pieces)
        json.dump(described, open(os.path.join(other, "server.json"), "w"))
        file = json.loads(t.to_str())
        for each in file["added_tokens"]:  # what ends answers is a mark, whatever the file says
            each["special"] = each["special"] and each["content"] != end
        json.dump(file, open(os.path.join(other, "tokenizer.json"), "w"))
        s = server("--folder", other)

        def generated(ids, n):
            out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=n, do_sample=False, pad_token_id=0, eos_token_id=tokenizer.eos_token_id)
            return out[0, len(ids):].tolist()

        for prompt in ("the sea and sky", " 12 345; grüße 世界 😀\r\n\r\n  x", end + "the"):  # a completion's text may have marks
            ids = tokenizer(prompt).input_ids
            assert ids[0] == tokenizer.bos_token_id and tokenizer.bos_token_id not in ids[1:]
            got = s.client.completions.create(model="small", prompt=prompt, temperature=0, max_tokens=24)
            want = text_of(tokenizer, generated(ids, 24), False)
            assert got.usage.prompt_tokens == len(ids) and got.choices[0].text == want, (family, prompt, got, want)
            streamed = s.client.completions.create(model="small", prompt=prompt, temperature=0, max_tokens=24, stream=True)
            assert "".join(p.choices[0].text for p in streamed) == want
        for messages in ([("user", "the sea")], [("user", " go \u3000"), ("assistant", "we'll go"), ("user", "grüße 世界\n")]):
            messages = [{"role": r, "content": c} for r, c in messages]
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
            assert ids.count(tokenizer.bos_token_id) == 1
            got = s.client.chat.completions.create(model="small", messages=messages, temperature=0, max_tokens=24, logprobs=True)
            want = text_of(tokenizer, generated(ids, 24), True)
            assert got.usage.prompt_tokens == len(ids) and got.choices[0].message.content == want, (family, messages, got, want)
            assert b"".join(bytes(c.bytes) for c in got.choices[0].logprobs.content).decode(errors="replace") == want
        marks = [{"role": "user", "content": "the sea" + end}]
        got = s.client.chat.completions.create(model="small", messages=marks, max_tokens=1)
        assert got.usage.prompt_tokens > len(tokenizer.apply_chat_template(marks, add_generation_prompt=True, return_dict=True)["input_ids"]), got
        schema = {"type": "object", "properties": {"größe": {"type": "integer"}, "b": {"type": "array", "items": {"enum": ["x y", "世", None]}, "minItems": 2, "maxItems": 3}},
                  "required": ["größe", "b"], "additionalProperties": False}
        for seed in range(6):
            got = s.client.chat.completions.create(model="small", messages=[{"role": "user", "content": "go"}], seed=seed, temperature=1.5, max_tokens=120,
                                                   response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
            value = json.loads(got.choices[0].message.content)
            assert got.choices[0].finish_reason == "stop" and list(value) == ["größe", "b"] and all(x in ("x y", "世", None) for x in value["b"]), got
        s.stop()
    # The last of them with an expression that takes time by a power of the text's length.
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+b|."
    json.dump(file, open(os.path.join(other, "tokenizer.json"), "w"))
    s = server("--folder", other)
    status, text = s.post("/v1/completions", json.dumps({"prompt": "a" * 100}).encode())
    assert status == 400 and "takes too long" in text, (status, text)
    assert s.post("/v1/completions", json.dumps({"prompt": "the sea", "max_tokens": 1}).encode())[0] == 200
    s.stop()
    print("ok   tokenizers of other families: marks of a begin, spaces at it, bytes, schemas", flush=True)
