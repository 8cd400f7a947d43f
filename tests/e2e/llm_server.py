"""samples/llm_server, driven by the openai client: a small decoder with random weights, exported, compiled, served.

    llm_server.py --aotc BIN --server BIN --work DIR [--load SECONDS] [--clients 32] [--schemas 20] [--cuda sm_90a]     # --cuda: on this machine's GPU

Greedy texts are those of transformers' generate, log probabilities those of its logits. With --load 32 clients ask, a third of them hang up: afterwards
nothing is held, and every answer is the one that a quiet server gives.
"""
import argparse
import contextlib
import atexit
import base64
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

try:
    import jsonschema
    import openai
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError as e:
    print(f"{e.name} is not installed: skipped")
    sys.exit(77)
import torch
import transformers

import traced
from llm_server_adapters import check_adapters
from llm_server_tokenizers import check_tokenizers

here = os.path.dirname(os.path.abspath(__file__))
export = os.path.join(here, "..", "..", "samples", "llm", "export.py")
TEMPLATE = ("{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"
            "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
CACHE, SLOTS, CHUNK, QUEUE = 192, 4, 16, 12


def make(o):
    """The model's folder, and the decoder and tokenizer in Python."""
    folder = os.path.join(o.work, "model")
    os.makedirs(folder, exist_ok=True)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    rng = random.Random(1)
    corpus = [" ".join(rng.choice("the sea and sky grüße 世界 of stones under a bright 😀 wind 12 34 ; we'll go".split()) for _ in range(40)) for _ in range(50)]
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                                      special_tokens=[AddedToken(x, special=True) for x in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
                                      max_position_embeddings=256, initializer_range=0.15, eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=0)
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    out = os.path.join(o.work, "out")
    forked = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch_process.py")
    for command in ([sys.executable, "-IS", forked, export, out, "--model", folder, "--slots", str(SLOTS), "--cache", str(CACHE), "--chunk", str(CHUNK), "--hidden", "--name", "small",
                     "--adapters", "2", "--rank", "8"],
                    [o.aotc, "build", out + "/model.pt2", "--shapes", out + "/model.shapes.json", "--states", "*.lora_a,*.lora_b", "-o", out + "/model.so", "--quiet",
                     *(["--cuda", o.cuda] if o.cuda else [])]):
        r = subprocess.run(command, capture_output=True, text=True)
        assert r.returncode == 0, f"{command}: {r.stdout}{r.stderr}"
    return out, model, tokenizer


class Server:
    def __init__(self, o, folder, *options):
        self.log = open(os.path.join(o.work, "server.log"), "a")
        self.process = subprocess.Popen([o.server, folder + "/model.so", "--port", "0", "--threads", "1", "--queue", str(QUEUE), "--max-sequences", "12", *options],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        atexit.register(self.process.kill)  # also where a check fails
        line = self.process.stdout.readline()
        assert "listening at" in line, (line, open(self.log.name).read())
        self.url = line.split("listening at ")[1].split("/v1")[0]
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="x", max_retries=0, timeout=300)

    def get(self, path):
        return urllib.request.urlopen(self.url + path, timeout=30).read().decode()

    def post(self, path, body):
        """Status and text of a raw request."""
        try:
            r = urllib.request.urlopen(urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}), timeout=60)
            return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def metric(self, name):
        return sum(float(l.split()[-1]) for l in self.get("/metrics").split("\n") if l.split("{")[0].split(" ")[0] == name)

    def idle(self):
        for _ in range(600):
            if self.metric("llm_sequences_running") == 0 and self.metric("llm_sequences_waiting") == 0:
                return
            time.sleep(0.05)
        raise AssertionError("the server is not idle: " + self.get("/metrics"))

    def stop(self):
        self.client.close()  # the server waits for connections that are kept alive
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        assert code == 0, (code, open(self.log.name).read()[-4000:])


def generated(model, tokenizer, ids, n):
    """Eager's greedy tokens without the one that ends it, and whether one did."""
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=n, do_sample=False, pad_token_id=0)[0, len(ids):].tolist()
    ended = bool(out) and out[-1] == tokenizer.eos_token_id
    return out[:-1] if ended else out, ended


def text_of(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def check_greedy(s, model, tokenizer):
    conversations = [[("user", "the sea")], [("system", "of stones"), ("user", "the wind and sky 世界")], [("user", "go"), ("assistant", "we'll go"), ("user", "12 34; grüße 😀")],
                     [("user", "<|im_end|> is text here")]]
    for c in conversations:
        messages = [{"role": r, "content": t} for r, t in c]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
        if "<|" in c[0][1]:  # a mark that the client writes is text: it is not the token that would end the message
            got = s.client.chat.completions.create(model="small", messages=messages, temperature=0, max_tokens=4)
            assert got.usage.prompt_tokens > len(ids), got
            continue
        want, ended = generated(model, tokenizer, ids, 60)
        got = s.client.chat.completions.create(model="small", messages=messages, temperature=0, max_completion_tokens=60)
        assert got.choices[0].message.content == text_of(tokenizer, want), (got, want)
        assert got.choices[0].finish_reason == ("stop" if ended else "length") and got.usage.prompt_tokens == len(ids), got
        pieces = list(s.client.chat.completions.create(model="small", messages=messages, temperature=0, max_completion_tokens=60, stream=True, stream_options={"include_usage": True}))
        assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == text_of(tokenizer, want), pieces
        assert pieces[-1].usage.completion_tokens == got.usage.completion_tokens == len(want) + ended and pieces[0].choices[0].delta.role == "assistant"
    rng = random.Random(5)
    prompts = [[rng.randrange(3, model.config.vocab_size) for _ in range(n)] for n in (1, 2, 15, 16, 17, 33, 70, 120)]
    got = s.client.completions.create(model="small", prompt=prompts, temperature=0, max_tokens=24)
    for i, ids in enumerate(prompts):
        want, _ = generated(model, tokenizer, ids, 24)
        assert got.choices[i].index == i and got.choices[i].text == text_of(tokenizer, want), (i, got.choices[i], want)
    before = s.metric("llm_prompt_tokens_cached_total")
    again = s.client.completions.create(model="small", prompt=prompts[-1] + [7, 9], temperature=0, max_tokens=24)
    assert again.choices[0].text == text_of(tokenizer, generated(model, tokenizer, prompts[-1] + [7, 9], 24)[0])
    assert again.usage.prompt_tokens_details.cached_tokens >= 120 and s.metric("llm_prompt_tokens_cached_total") >= before + 120, again
    print("ok   greedy texts are eager's, the prefix is reused", flush=True)


def check_choices(s, model, tokenizer):
    ids = tokenizer.encode("the sea and sky")
    with torch.no_grad():
        truth = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1)
    best = truth.topk(5)
    got = s.client.completions.create(model="small", prompt="the sea and sky", temperature=0, max_tokens=1, logprobs=5).choices[0].logprobs
    assert abs(got.token_logprobs[0] - best.values[0].item()) < 1e-3 and len(got.top_logprobs[0]) <= 5
    assert max(abs(a - b) for a, b in zip(sorted(got.top_logprobs[0].values(), reverse=True), best.values.tolist())) < 1e-3, got
    chat = s.client.chat.completions.create(model="small", messages=[{"role": "user", "content": "the sea"}], temperature=1, seed=3, max_tokens=6, logprobs=True, top_logprobs=3)
    content = chat.choices[0].logprobs.content
    assert b"".join(bytes(c.bytes) for c in content).decode(errors="replace") == chat.choices[0].message.content and all(len(c.top_logprobs) == 3 for c in content), chat
    for c in content:
        assert c.logprob <= c.top_logprobs[0].logprob + 1e-9 and c.top_logprobs == sorted(c.top_logprobs, key=lambda x: -x.logprob)

    def texts(**k):
        k = {"temperature": 1.0, "max_tokens": 12, "prompt": "the sea", **k}
        return [c.text for c in s.client.completions.create(model="small", **k).choices]

    many = texts(n=8, seed=11)
    assert len(set(many)) > 4 and many == texts(n=8, seed=11) and many != texts(n=8, seed=12), many
    greedy = texts(temperature=0)[0]
    for extra in ({"top_k": 1}, {"min_p": 1.0}):
        assert texts(n=2, extra_body=extra) == [greedy] * 2, extra
    assert texts(n=2, top_p=1e-6) == [greedy] * 2
    # How often each first token is drawn, against the model's distribution cut to its 3 likeliest.
    first = s.client.completions.create
    drawn = {}
    for seed in range(40):
        for c in first(model="small", prompt="the sea and sky", max_tokens=1, n=10, seed=seed * 1000, logprobs=0, temperature=1.0, extra_body={"top_k": 3}).choices:
            drawn[round(c.logprobs.token_logprobs[0], 3)] = drawn.get(round(c.logprobs.token_logprobs[0], 3), 0) + 1
    share = torch.softmax(best.values[:3], -1)
    for value, p in zip(best.values[:3].tolist(), share.tolist()):
        seen = sum(n for v, n in drawn.items() if abs(v - value) < 2e-3)
        assert abs(seen - 400 * p) < 5 * (400 * p * (1 - p))**0.5 + 1, (drawn, best)
    token = int(best.indices[1])
    assert texts(temperature=0, max_tokens=1, prompt="the sea and sky", logit_bias={str(token): 100})[0] == text_of(tokenizer, [token])
    banned = texts(temperature=0, max_tokens=20, prompt="the sea and sky", extra_body={"repetition_penalty": 100.0})[0]
    assert banned != texts(temperature=0, max_tokens=20, prompt="the sea and sky")[0]
    whole = texts(temperature=0, max_tokens=40)[0]
    stop = whole[9:12]
    cut = s.client.completions.create(model="small", prompt="the sea", temperature=0, max_tokens=40, stop=["never there", stop]).choices[0]
    assert cut.text == whole[:whole.index(stop)] and cut.finish_reason == "stop", (cut, whole, stop)
    streamed = s.client.completions.create(model="small", prompt="the sea", temperature=0, max_tokens=40, stop=stop, stream=True)
    assert "".join(p.choices[0].text for p in streamed) == cut.text
    print("ok   logprobs, seeds, n, top-k, top-p, min-p, penalties, bias, stop strings", flush=True)


def check_prefixes(s, model, tokenizer):
    # Answers to one prompt that come at once: one is fed the prompt, the others take it from its slot.
    rng = random.Random(8)
    prompt = [rng.randrange(3, model.config.vocab_size) for _ in range(100)]
    want = text_of(tokenizer, generated(model, tokenizer, prompt, 20)[0])
    before = s.metric("llm_prompt_tokens_cached_total")
    got = s.client.completions.create(model="small", prompt=prompt, temperature=0, max_tokens=20, n=SLOTS)
    assert [c.text for c in got.choices] == [want] * SLOTS, (got, want)
    assert s.metric("llm_prompt_tokens_cached_total") == before + 99 * (SLOTS - 1), s.get("/metrics")
    assert got.usage.prompt_tokens == 100 and got.usage.prompt_tokens_details.cached_tokens == 0, got.usage
    # Beside sequences that hold it and go on: more prompts than slots, each with a beginning of that one.
    prompts = [prompt[:n] + [rng.randrange(3, model.config.vocab_size) for _ in range(6)] for n in (90, 60, 40, 17, 15, 90)]
    got = s.client.completions.create(model="small", prompt=prompts, temperature=0, max_tokens=20)
    for c, ids in zip(got.choices, prompts):
        assert c.text == text_of(tokenizer, generated(model, tokenizer, ids, 20)[0]), (c, ids)
    print("ok   prompts that begin alike are fed once", flush=True)


def drawn_schema(rng, depth=0):
    """A schema that the server takes."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "bounded"] + ["object", "array", "anyOf", "tuple", "types", "map"] * (depth < 3)
    kind = "object" if depth == 0 and rng.random() < 0.7 else rng.choice(kinds)
    inner = lambda: drawn_schema(rng, depth + 1)
    name = lambda: rng.choice(["a", "name", "größe", 'with "quotes"', "back\\slash", "x y", "世界", "", "line\nbreak", "$ref"]) + str(rng.randrange(4))
    value = lambda: rng.choice(["red", "grün", 'say "hi"', "a\\b\n", 3, -1.5, True, None, [1, {"k": "v"}], {}])
    if kind == "string":
        least = rng.randrange(0, 4)
        return {"type": "string", **rng.choice([{}, {"minLength": least}, {"maxLength": least + 3}, {"minLength": least, "maxLength": least + rng.randrange(3)}])}
    if kind == "bounded":
        least, whole = rng.randrange(-1200, 1200), rng.random() < 0.6
        more = least + rng.choice([0, 1, 7, 90, 3000])
        bounds = rng.choice([{"minimum": least}, {"maximum": least}, {"minimum": least, "maximum": more}, {"exclusiveMinimum": least - 1, "exclusiveMaximum": more + 2},
                             {"minimum": least - 0.5, "maximum": more + 0.5}])
        return {"type": "integer" if whole else "number", **bounds}
    if kind == "enum":
        return {"enum": [value() for _ in range(rng.randrange(1, 4))]}
    if kind == "const":
        return {"const": value()}
    if kind == "anyOf":
        return {"anyOf": [inner() for _ in range(rng.randrange(1, 4))], "title": "x"}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "null", "boolean"], 2), "description": "one of two"}
    if kind == "map":
        return {"type": "object", "additionalProperties": inner()}
    if kind in ("array", "tuple"):
        least = rng.randrange(0, 3)
        s = {"type": "array", "items": inner(), **rng.choice([{}, {"minItems": least}, {"minItems": least, "maxItems": least + 2}, {"maxItems": least}])}
        if kind == "tuple":
            s["prefixItems"] = [inner() for _ in range(rng.randrange(1, 3))]
            if rng.random() < 0.3:
                s = {**s, "items": False, "minItems": min(s.get("minItems", 0), len(s["prefixItems"]))}
        return s
    if kind == "object":
        names = list(dict.fromkeys(name() for _ in range(rng.randrange(0, 5))))
        return {"type": "object", "properties": {n: inner() for n in names}, "required": [n for n in names if rng.random() < 0.5] + ["more"] * (rng.random() < 0.1),
                **({"additionalProperties": rng.choice([True, {"type": "integer"}])} if rng.random() < 0.3 else {})}
    return {"type": kind}


def check_schemas(s, tokenizer, count):
    """Answers are valid by drawn schemas, says jsonschema; what the server does not know it refuses by its path."""
    ends = {str(i): 5 for token, i in tokenizer.get_vocab().items() if token.strip("Ġ") in ('"', "}", "]", '"}', '"]')}
    wanted = lambda schema: {"type": "json_schema", "json_schema": {"name": "drawn", "strict": True, "schema": schema}}

    def valid(text, schema):
        value = json.loads(text)
        jsonschema.Draft202012Validator(schema).validate(value)
        return value

    node = {"type": "object", "properties": {"value": {"type": "integer"}, "left": {"$ref": "#/$defs/node"}, "right": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["value"], "additionalProperties": False}
    schemas = [{"$ref": "#/$defs/node", "$defs": {"node": node}},
               {"type": "object", "properties": {"word": {"type": "string", "maxLength": 5}, "again": {"$ref": "#"}}, "required": ["word"]},
               {"type": "array", "items": {"allOf": [{"$ref": "#/definitions/a%20b"}]}, "minItems": 2, "maxItems": 2, "definitions": {"a b": {"enum": ["x", 1]}}},
               {"minimum": 3, "maximum": 11}, {"type": "integer", "minimum": 999, "maximum": 1001}, {"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 1},
               {"properties": {"a": False, "b": True}, "required": ["b"]}, {"type": "string", "minLength": 2, "maxLength": 2}]
    rng = random.Random(21)
    while len(schemas) < count:
        drawn = drawn_schema(rng)
        jsonschema.Draft202012Validator.check_schema(drawn)
        schemas.append(drawn)
    whole = cut = refused = 0
    for i, schema in enumerate(schemas):
        try:
            got = s.client.chat.completions.create(model="small", messages=[{"role": "user", "content": "go"}], response_format=wanted(schema), temperature=1, seed=i, n=4, max_tokens=120,
                                                   logit_bias=ends)
        except openai.BadRequestError as e:
            # A number of a range without an integer is what is drawn and not supported; a schema of nothing is told so.
            assert any(w in str(e) for w in ("holds no integer", "no value is valid")), (e, schema)
            refused += 1
            continue
        for c in got.choices:
            if c.finish_reason == "stop":
                valid(c.message.content, schema)
                whole += 1
            else:
                cut += 1
    assert whole > 2 * len(schemas) and refused < len(schemas) // 4, (whole, cut, refused)

    text = "".join(p.choices[0].delta.content or "" for p in s.client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": "go"}], response_format=wanted(schemas[3]), stream=True, max_tokens=20) if p.choices)
    assert 3 <= valid(text, schemas[3]) <= 11, text
    fixed = {"type": "object", "properties": {"ä": {"const": "größer"}, "b": {"enum": [7]}}, "required": ["ä", "b"]}
    got = s.client.completions.create(model="small", prompt="the sea", temperature=0, max_tokens=60, extra_body={"response_format": wanted(fixed), "ignore_eos": True}).choices[0]
    assert valid(got.text, fixed) == {"ä": "größer", "b": 7} and got.finish_reason == "stop", got
    free = s.client.chat.completions.create(model="small", messages=[{"role": "user", "content": "go"}], response_format={"type": "json_object"}, seed=4, n=8, max_tokens=120, logit_bias=ends)
    objects = [json.loads(c.message.content) for c in free.choices if c.finish_reason == "stop"]
    assert all(isinstance(o, dict) for o in objects), objects
    plain = s.client.completions.create(model="small", prompt="the sea", temperature=0, max_tokens=8)
    assert plain.choices[0].text == s.client.completions.create(model="small", prompt="the sea", temperature=0, max_tokens=8, extra_body={"response_format": {"type": "text"}}).choices[0].text

    root = "response_format.json_schema.schema"
    for schema, *words in (({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}, root + ".properties.a.pattern"),
                           ({"type": "array", "items": {"anyOf": [{}, {"multipleOf": 2}]}}, root + ".items.anyOf[1].multipleOf"),
                           ({"properties": {"a b": {"format": "date"}}}, root + '.properties["a b"].format'), ({"type": "text"}, root + ".type", "no type"),
                           ({"$ref": "https://example.org/x"}, root + ".$ref", "within the schema"), ({"$ref": "#/$defs/none"}, root + ".$ref", "nothing at"),
                           ({"$ref": "#"}, root, "no value"), ({"type": "string", "minLength": -1}, root + ".minLength"), ({"not": {}}, root + ".not"),
                           ({"anyOf": [{}], "type": "string"}, root + ".type", "beside anyOf"), ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, root, "no value"),
                           (7, root, "expected a schema"), ({"enum": 3}, root + ".enum"), ({"type": "array", "uniqueItems": True}, root + ".uniqueItems"),
                           ({"type": "number", "minimum": 0.2, "maximum": 0.8}, root, "holds no integer"), ({"enum": ["a"], "type": "integer"}, root, "no value")):
        status, answer = s.post("/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "x"}], "response_format": wanted(schema)}).encode())
        assert status == 400 and all(w in json.loads(answer)["error"]["message"] for w in words), (schema, status, answer)
    for format in ({"type": "xml"}, 3, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "x"}}, []):
        status, answer = s.post("/v1/completions", json.dumps({"prompt": "x", "response_format": format}).encode())
        assert status == 400 and json.loads(answer)["error"]["param"] == "response_format", (format, status, answer)
    print(f"ok   {len(schemas)} schemas: {whole} answers valid, {cut} cut off by their length, {refused} schemas refused", flush=True)


def check_embeddings(s, model, tokenizer):
    texts = ["the sea", "of stones under a bright wind " * 6]
    got = s.client.embeddings.create(model="small", input=texts)
    for text, e in zip(texts, got.data):
        with torch.no_grad():
            want = torch.nn.functional.normalize(model.model(torch.tensor([tokenizer.encode(text)])).last_hidden_state[0].mean(0), dim=0)
        assert (torch.tensor(e.embedding) - want).abs().max() < 1e-4
    _, raw = s.post("/v1/embeddings", json.dumps({"model": "small", "input": texts[0], "encoding_format": "base64"}).encode())
    raw = base64.b64decode(json.loads(raw)["data"][0]["embedding"])
    assert max(abs(a - b) for a, b in zip(struct.unpack(f"{len(raw) // 4}f", raw), got.data[0].embedding)) < 1e-5
    print("ok   embeddings", flush=True)


def refused(kind, words, call):
    try:
        call()
    except kind as e:
        assert all(w in f"{e} {e.code}" for w in words), (e, e.code)
        return
    raise AssertionError(f"no error: expected {kind} with {words}")


def check_errors(s):
    c = s.client
    user = [{"role": "user", "content": "x"}]
    bad = openai.BadRequestError
    refused(bad, ["context_length_exceeded", "192"], lambda: c.completions.create(model="small", prompt=[5] * 192))
    refused(bad, ["context_length_exceeded"], lambda: c.completions.create(model="small", prompt=[5] * 100, max_tokens=93))
    refused(bad, ["not a token id"], lambda: c.completions.create(model="small", prompt=[100000]))
    refused(openai.NotFoundError, ["model_not_found"], lambda: c.completions.create(model="large", prompt="x"))
    refused(bad, ["temperature", "0 to 100"], lambda: c.completions.create(model="small", prompt="x", temperature=-1))
    refused(bad, ["tools"], lambda: c.chat.completions.create(model="small", messages=user, tools=[{"type": "function", "function": {"name": "f"}}]))
    refused(bad, ["at most 12"], lambda: c.completions.create(model="small", prompt=["x"] * 5, n=3))
    refused(bad, ["role"], lambda: c.chat.completions.create(model="small", messages=[{"role": "tool", "content": "x", "tool_call_id": "1"}]))
    refused(bad, ["messages"], lambda: c.chat.completions.create(model="small", messages=[]))
    refused(bad, ["n: "], lambda: c.completions.create(model="small", prompt="x", n=0))
    refused(bad, ["no tokens"], lambda: c.completions.create(model="small", prompt=""))
    for body in (b"", b"{", b"[]", b"null", b'{"prompt": 3}', b'{"prompt": [[]]}', b'{"prompt": "\xff\xfe"}', b'{"prompt":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"model":' + b"[" * 5000 + b"]" * 5000 + b"}",
                 b'{"prompt": "x", "max_tokens": 1e99}', b'{"prompt": "x", "seed": 1.5}', b'{"prompt": "x", "stop": [1]}', b'{"prompt": "x", "logit_bias": {"a": 1}}',
                 b'{"prompt": "x", "logit_bias": {"99999": 1}}', b'{"prompt": [1e30]}', b'{"prompt": [-1]}', b'{"prompt": "x", "stream_options": 1}'):
        status, text = s.post("/v1/completions", body)
        assert status == 400 and "message" in json.loads(text)["error"], (body[:60], status, text)
    assert s.post("/v1/completions", json.dumps({"prompt": "x" * (2 << 20)}).encode())[0] == 413
    assert s.post("/nowhere", b"{}")[0] == 404
    assert [m.id for m in c.models.list()] == ["small"] and c.models.retrieve("small").id == "small" and '"ok"' in s.get("/health")
    # Slots and queue full: what is too much gets 429, the others their answers. A fast server answers some bursts as they come.
    for _ in range(50):
        results, together = [], threading.Barrier(12)

        def ask(results=results, together=together):
            together.wait()
            try:
                c.completions.create(model="small", prompt=[9] * 20, max_tokens=150, n=4, extra_body={"ignore_eos": True})
                results.append(200)
            except openai.RateLimitError:
                results.append(429)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert results.count(200) >= (SLOTS + QUEUE) // 4 and len(results) == 12, results
        if 429 in results:
            break
    assert results.count(429) >= 1, results
    s.idle()
    print("ok   errors", flush=True)


def check_hang_up(s):
    host, port = s.url.split("//")[1].split(":")
    for stream in (True, False):
        before = s.metric("llm_sequences_cancelled_total")
        body = json.dumps({"model": "small", "prompt": [5, 6, 7], "max_tokens": 189, "n": 12, "ignore_eos": True, "stream": stream}).encode()
        for _ in range(30):  # a fast machine may be done before it sees that nobody listens; some of the four may get 429
            with contextlib.ExitStack() as all_of_them:
                for k in [all_of_them.enter_context(socket.create_connection((host, int(port)))) for _ in range(4)]:
                    k.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            s.idle()
            if s.metric("llm_sequences_cancelled_total") > before:
                break
        assert s.metric("llm_sequences_cancelled_total") > before, stream
    print("ok   a client that hangs up frees its slots", flush=True)


def load(s, seconds, clients):
    rng = random.Random(2)
    jobs = [dict(prompt=[rng.randrange(3, 300) for _ in range(rng.randrange(1, 80))], max_tokens=rng.randrange(1, 60)) for _ in range(24)]
    quiet = [s.client.completions.create(model="small", temperature=0, **j).choices[0].text for j in jobs]
    until, wrong, done, hung, busy = time.time() + seconds, [], [0], [0], [0]

    def client(i):
        r = random.Random(i)
        while time.time() < until and not wrong:
            k = r.randrange(len(jobs))
            try:
                if r.random() < 1 / 3:
                    stream = s.client.completions.create(model="small", temperature=0, stream=True, **jobs[k])
                    for _ in range(r.randrange(0, 6)):
                        next(iter(stream), None)
                    stream.close()
                    hung[0] += 1
                elif r.random() < 0.5:
                    text = "".join(p.choices[0].text for p in s.client.completions.create(model="small", temperature=0, stream=True, **jobs[k]))
                    done[0] += 1
                    if text != quiet[k]:
                        wrong.append((k, text, quiet[k]))
                else:
                    text = s.client.completions.create(model="small", temperature=0, **jobs[k]).choices[0].text
                    done[0] += 1
                    if text != quiet[k]:
                        wrong.append((k, text, quiet[k]))
            except openai.RateLimitError:
                busy[0] += 1
                time.sleep(0.02)
            except Exception as e:  # noqa: BLE001
                wrong.append((repr(e), repr(e.__cause__)))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong[:3]
    s.idle()
    assert s.metric("llm_sequences_failed_total") == 0
    print(f"ok   {clients} clients for {seconds} s: {done[0]} answers as on a quiet server, {hung[0]} hung up, {busy[0]} told to come again, "
          f"{int(s.metric('llm_generated_tokens_total'))} tokens", flush=True)


def check_prompt_tokens(o, folder):
    """A prompt that comes while an answer is under way is taken in pieces of --prompt-tokens; answers are as without."""
    long, prompt = [5, 9, 2], [(7 * i) % 300 + 3 for i in range(100)]
    s = Server(o, folder, "--prompt-tokens", "5")
    ask = lambda ids, n, **more: s.client.completions.create(model="small", prompt=ids, max_tokens=n, temperature=0, extra_body={"ignore_eos": True}, **more)
    alone = [ask(long, 150).choices[0].text, ask(prompt, 4).choices[0].text]
    for attempt in range(50):  # until the prompt comes before the answer's end
        prompt[0] = 10 + attempt  # no other slot holds it
        begun = s.metric("llm_runs_total")
        stream = ask(long, 150, stream=True)
        text = next(iter(stream)).choices[0].text
        ask(prompt, 4)
        text += "".join(event.choices[0].text for event in stream)
        assert text == alone[0], (text, alone[0])
        if s.metric("llm_runs_total") - begun > 150 + len(prompt) // CHUNK + 4:  # all that pieces of CHUNK tokens can take
            break
    else:
        raise AssertionError("no prompt was taken in smaller pieces")
    prompt[0] = 3
    assert ask(prompt, 4).choices[0].text == alone[1]
    s.stop()
    print("ok   prompts in smaller pieces beside an answer", flush=True)


def check_trim(o, folder):
    """Without requests the weights' memory goes back once, and answers stay the same."""
    s = Server(o, folder, "--trim-after", "1")
    ask = lambda: s.client.completions.create(model="small", prompt=[7, 3, 9], max_tokens=12, temperature=0).choices[0].text
    answers = []
    for times in (1, 2):
        answers.append(ask())
        for _ in range(600):
            if s.metric("llm_weights_trimmed_total") == times:
                break
            time.sleep(0.1)
        assert s.metric("llm_weights_trimmed_total") == times, s.get("/metrics")
    answers.append(ask())
    assert len(set(answers)) == 1, answers
    s.stop()
    print("ok   memory of an idle server's weights", flush=True)


def check_requests(o, folder):
    log = os.path.join(o.work, "nvtx.log")
    with traced.nvtx(os.path.abspath(o.nvtx), log):
        s = Server(o, folder)
    traced.check(lambda headers: s.client.completions.create(model="small", prompt=[7, 3, 9], max_tokens=4, extra_headers=headers), log)
    s.stop()
    print("ok   runs carry the traceparent of their requests", flush=True)


def check_shutdown(o, folder):
    # All answers that run when the signal comes are whole, those too whose last bytes are written when the last token is there. A request that
    # comes later is told so, or finds no server: how many of the four do is the scheduler's choice.
    whole = late = 0
    for _ in range(5):
        s = Server(o, folder)
        answers, refused = [], []

        client = openai.OpenAI(base_url=s.url + "/v1", api_key="x", max_retries=0, timeout=300)

        def ask(n, client=client, answers=answers, refused=refused):
            try:
                answer = client.completions.create(model="small", prompt=[5] * 8, max_tokens=n, logprobs=5, extra_body={"ignore_eos": True}, extra_headers={"Connection": "close"})
                answers.append(answer.usage.completion_tokens - n)
            except (openai.InternalServerError, openai.APIConnectionError) as e:
                refused.append(e)

        threads = [threading.Thread(target=ask, args=(180,)) for _ in range(4)]
        [t.start() for t in threads]
        running = 0
        while running < 4 and not answers:
            running = max(running, int(s.metric("llm_sequences_running")))
            time.sleep(0.001)
        s.stop()
        [t.join() for t in threads]
        ran = max(running, 1)
        assert answers == [0] * len(answers) and len(answers) >= ran, f"of {ran} answers that ran some were lost: {answers}, {refused}"
        assert all(isinstance(e, openai.APIConnectionError) or e.status_code == 503 for e in refused), refused
        whole, late = whole + len(answers), late + len(refused)
    # A signal that comes before the server takes connections ends it, too.
    for _ in range(10):
        s = Server(o, folder)
        s.stop()
    print(f"ok   shutdown: {whole} answers whole, {late} requests came too late", flush=True)
    # What does not fit is told before a port is opened.
    def start(change, *words):
        other = os.path.join(o.work, "other")
        os.makedirs(other, exist_ok=True)
        for name in ("server.json", "tokenizer.json"):
            j = json.load(open(os.path.join(folder, name)))
            change(name, j)
            json.dump(j, open(os.path.join(other, name), "w"))
        r = subprocess.run([o.server, folder + "/model.so", "--folder", other, "--port", "0"], capture_output=True, text=True, timeout=60)
        assert r.returncode == 1 and all(w in r.stderr for w in words), r
    def more_tokens(name, j):
        if name == "tokenizer.json":
            j["added_tokens"].append({**j["added_tokens"][0], "id": 5000, "content": "<|more|>"})
    start(more_tokens, "tokenizer.json", "belongs to another model")
    start(lambda name, j: j.update(slots=9) if name == "server.json" else None, "rows go to 4", "says 9")
    start(lambda name, j: j.update(vocabulary=9000) if name == "server.json" else None, "float32 [answers, 9000]")
    start(lambda name, j: j.pop("cache") if name == "server.json" else None, "server.json", "cache")
    for arguments, words in ((["x.so", "--port", "99999"], "expected 0 to 65535"), (["x.so", "--what"], "unknown option"), ([], "no model")):
        r = subprocess.run([o.server, *arguments], capture_output=True, text=True)
        assert r.returncode == 2 and words in r.stderr, r
    print("ok   shutdown, misfits", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--server", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--nvtx", required=True)
    p.add_argument("--load", type=float, default=5)
    p.add_argument("--clients", type=int, default=32)
    p.add_argument("--schemas", type=int, default=20)
    p.add_argument("--cuda", help="build for GPUs of this architecture")
    o = p.parse_args()
    o.aotc, o.server, o.work = (os.path.abspath(x) for x in (o.aotc, o.server, o.work))
    os.makedirs(o.work, exist_ok=True)
    folder, model, tokenizer = make(o)
    s = Server(o, folder)
    check_greedy(s, model, tokenizer)
    check_prefixes(s, model, tokenizer)
    check_choices(s, model, tokenizer)
    check_schemas(s, tokenizer, o.schemas)
    check_embeddings(s, model, tokenizer)
    check_errors(s)
    check_hang_up(s)
    load(s, o.load, o.clients)
    s.stop()
    check_adapters(o, folder, model, lambda *options: Server(o, folder, *options), lambda m, ids, n: text_of(tokenizer, generated(m, tokenizer, ids, n)[0]), refused)
    check_prompt_tokens(o, folder)
    check_tokenizers(o, folder, model, lambda *options: Server(o, folder, *options))
    if not o.cuda:  # weights on a GPU stay there
        check_trim(o, folder)
    check_requests(o, folder)
    check_shutdown(o, folder)


if __name__ == "__main__":
    main()
