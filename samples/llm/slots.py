"""A decoder of `transformers` as a program with slots: a fixed number of sequences, each with its own part of one static KV cache.

    program = SlotDecoder(model, slots=8, cache=2048)
    logits = program(input_ids, slots, positions, lengths, span, wanted)
    exported = export(program, chunk=128)

    input_ids [rows, tokens]  row r feeds lengths[r] tokens to one sequence; what stands behind them means nothing
    slots     [rows]          the slot of each row's sequence; no slot twice
    positions [rows]          where in its sequence a row's first token stands. Feeding an earlier position again truncates the sequence
    lengths   [rows]          1 to tokens
    span      [context]       0, 1, ..., context - 1: the positions of the cache that are read. context is at least the largest
                              positions[r] + lengths[r], at most cache - 1; a run's time follows it, not the size of the cache
    wanted    [answers]       of which tokens logits are given, each as r * tokens + t with t < lengths[r]
    logits    [answers, vocabulary] in float32; with hidden=True also what the last layer gave, [answers, width] in float32

A model with adapters (adapters.py) has one input more, behind these: adapter [rows].

All integers are int64. Keys and values are buffers [slots, heads, cache, dim] of each layer (states of the artifact: `cache.3.keys`), written by index.
"""
import inspect

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache

NAME = "slots"


class Positions:
    """Where the tokens and the keys of the run that is traced stand: attention masks are functions of both."""
    tokens = None  # [rows, tokens]
    span = None    # [context]
    adapter = None  # [rows], or None: no layer asks for its adapter


def slot_mask(batch_size, q_length, kv_length, mask_function, **kwargs):
    """The mask [rows, 1, tokens, context] of a model's mask function (causal, windows, chunks), at the positions of each row."""
    rows = torch.arange(Positions.tokens.shape[0], device=Positions.span.device)[:, None, None, None]
    return mask_function(rows, torch.zeros_like(rows), Positions.tokens[:, None, :, None], Positions.span[None, None, None, :])


def slot_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, s_aux=None, position_bias=None, **kwargs):
    """Scaled dot products, with what decoders add to them: groups of heads, a cap of the scores, sinks."""
    rows, heads, tokens, _ = query.shape
    group = heads // key.shape[1]
    scaling = query.shape[-1]**-0.5 if scaling is None else scaling
    if softcap is None and s_aux is None and position_bias is None:
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=group > 1)
        return out.transpose(1, 2).contiguous(), None
    if group > 1:
        key, value = (x[:, torch.arange(heads, device=x.device) // group] for x in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if position_bias is not None:
        scores = scores + position_bias
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = torch.where(attention_mask, scores.float(), torch.finfo(torch.float32).min)
    if s_aux is not None:  # a sink takes its share of the probability and gives nothing
        scores = torch.cat([scores, s_aux.float().reshape(1, -1, 1, 1).expand(rows, heads, tokens, 1)], -1)
    shares = torch.softmax(scores, -1).to(value.dtype)
    shares = shares[..., :key.shape[2]] if s_aux is not None else shares
    return (shares @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, slot_attention)
AttentionMaskInterface.register(NAME, slot_mask)


class Layer(torch.nn.Module):
    """Keys and values of one layer."""

    def __init__(self, keys, values):
        super().__init__()
        self.register_buffer("keys", keys)
        self.register_buffer("values", values)

    def update(self, key, value, slots, positions, context):
        # Tokens behind a row's length repeat its last one (forward), so they write what stands there.
        self.keys[slots[:, None], :, positions] = key.transpose(1, 2)
        self.values[slots[:, None], :, positions] = value.transpose(1, 2)
        return self.keys[slots][:, :, :context], self.values[slots][:, :, :context]


class SlotCache(Cache):
    """What a model sees of the cache in one run. With layers None: learns the shapes of keys and values instead."""
    is_compileable = True

    def __init__(self, layers, slots, positions, span):
        super().__init__(layers=[])
        self.parts, self.slots, self.positions, self.span = layers, slots, positions, span
        self.shapes = {}

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        if self.parts is None:
            self.shapes[layer_idx] = (key_states.shape, value_states.shape, key_states.dtype)
            return key_states, value_states
        return self.parts[str(layer_idx)].update(key_states, value_states, self.slots, self.positions, self.span.shape[0])

    def get_seq_length(self, layer_idx=0):
        return 0

    def get_query_offset(self, layer_idx=0):
        return 0

    def get_mask_sizes(self, query_length, layer_idx=0):
        return self.span.shape[0], 0

    def get_max_length(self, layer_idx=None):
        return -1

    def no_state(self, *args, **kwargs):
        raise ValueError("the model has layers with a recurrent state (linear attention, state spaces, convolutions), which slots do not hold: "
                         "expected layers with keys and values alone")

    get_conv_state = update_conv_state = update_recurrent_state = get_recurrent_state = has_previous_state = no_state


class SlotDecoder(torch.nn.Module):
    def __init__(self, model, slots, cache, hidden=False):
        super().__init__()
        config = model.config.get_text_config()
        if slots < 2:
            raise ValueError(f"{slots} slots: expected at least 2")
        if config.is_encoder_decoder:
            raise ValueError(f"{type(model).__name__} has an encoder: expected a decoder alone")
        if not model._supports_attention_backend and not getattr(model, "_supports_sdpa", False):
            raise ValueError(f"{type(model).__name__} does not let its attention be chosen, which a cache of slots needs")
        recurrent = sorted({t for t in getattr(config, "layer_types", None) or [] if "attention" not in t or "linear" in t})
        if recurrent:
            raise ValueError(f"the model has layers with a recurrent state ({', '.join(recurrent)}), which slots do not hold: expected layers "
                             "with keys and values alone")
        model.eval()
        ids = torch.randint(0, model.get_input_embeddings().weight.shape[0], (1, min(32, cache - 1)), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            wanted = model(ids, use_cache=False).logits[0, -1].float()
        for c in {id(model.config): model.config, id(config): config}.values():
            c._attn_implementation_internal = NAME
        for part in model.modules():  # each part may hold a config of its own
            if isinstance(getattr(part, "config", None), type(config)):
                part.config._attn_implementation_internal = NAME
        self.model, self.hidden = model, hidden
        if self.head is None:
            raise ValueError(f"{type(model).__name__} has no output over its vocabulary: expected a model for causal language modelling")
        limit = getattr(config, "max_position_embeddings", None)
        if limit and cache > limit:
            raise ValueError(f"a cache of {cache} positions, and the model knows {limit}")
        self.cache_name = next((n for n in ("cache", "past_key_values") if n in inspect.signature(self.body.forward).parameters), None)
        if self.cache_name is None:
            raise ValueError(f"{type(self.body).__name__} takes no cache")
        probe = SlotCache(None, None, None, torch.arange(2))
        with torch.no_grad():
            self.run(torch.zeros(1, 2, dtype=torch.long), torch.arange(2)[None], probe)
        if not probe.shapes:
            raise ValueError(f"{type(model).__name__} keeps no keys and values in its cache")
        made = lambda s, dtype: torch.zeros(slots, s[1], cache, s[3], dtype=dtype)
        self.cache = torch.nn.ModuleDict({str(i): Layer(made(k, dtype), made(v, dtype)) for i, (k, v, dtype) in sorted(probe.shapes.items())})
        self.slots, self.positions, self.vocabulary = slots, cache, self.head.weight.shape[0]
        self.adapters = next((buffer.shape[0] - 1 for name, buffer in model.named_buffers() if name.endswith(".lora_a")), 0)
        self.compare(ids, wanted)

    @property
    def body(self):
        return self.model.get_decoder() or self.model.base_model

    @property
    def head(self):
        return self.model.get_output_embeddings()

    def compare(self, ids, wanted):
        """Throws where the model, fed in two pieces to a slot, does not say what it says by itself."""
        with torch.no_grad():
            half = ids.shape[1] // 2
            self(*arguments([(1, 0, ids[0, :half].tolist())]))
            got = self(*arguments([(1, half, ids[0, half:].tolist())]))
        got = got[0] if self.hidden else got
        worst, scale = (got[0] - wanted).abs().max().item(), wanted.abs().max().item()
        if not worst <= (1e-4 if self.head.weight.dtype == torch.float32 else 0.1) * max(scale, 1e-3):
            raise ValueError(f"{type(self.model).__name__} from slots says something else than by itself (logits up to {scale:.3g} are {worst:.3g} "
                             "away): it builds its masks, its attention or its logits in a way of its own")
        for buffer in self.cache.buffers():
            buffer.zero_()

    def run(self, input_ids, positions, cache):
        Positions.tokens, Positions.span = positions, cache.span
        try:
            return self.body(input_ids=input_ids, position_ids=positions, use_cache=True, **{self.cache_name: cache}).last_hidden_state
        finally:
            Positions.tokens = Positions.span = None

    def forward(self, input_ids, slots, positions, lengths, span, wanted, adapter=None):
        last = torch.minimum(torch.arange(input_ids.shape[1], device=input_ids.device)[None], lengths[:, None] - 1)
        ids, positions = input_ids.gather(1, last), positions[:, None] + last
        Positions.adapter = adapter
        try:
            hidden = self.run(ids, positions, SlotCache(self.cache, slots, positions, span))
        finally:
            Positions.adapter = None
        hidden = hidden.reshape(-1, hidden.shape[-1])[wanted]
        logits = self.finish(self.head(hidden)).float()
        return (logits, hidden.float()) if self.hidden else logits

    def finish(self, logits):
        """What models do between the output's product and their logits."""
        config = self.model.config.get_text_config()
        scale, divide, cap = (getattr(config, n, None) for n in ("logit_scale", "logits_scaling", "final_logit_softcapping"))
        if scale is not None:
            logits = logits * scale
        if divide is not None:
            logits = logits / divide
        return cap * torch.tanh(logits / cap) if cap else logits


def arguments(rows, adapters=None):
    """Inputs of a run. rows: (slot, position, token ids) each; logits of each row's last token. adapters: of each row, where the program has some."""
    tokens = max(len(ids) for _, _, ids in rows)
    fed = torch.tensor([list(ids) + [0] * (tokens - len(ids)) for _, _, ids in rows])
    positions, lengths = torch.tensor([p for _, p, _ in rows]), torch.tensor([len(ids) for _, _, ids in rows])
    return (fed, torch.tensor([s for s, _, _ in rows]), positions, lengths, torch.arange(int((positions + lengths).max())),
            torch.arange(len(rows)) * tokens + lengths - 1) + (() if adapters is None else (torch.tensor(adapters),))


def answers_limit(program, chunk):
    """How many tokens of a run can be asked for: the last one of each row, and of what the last layer gave all of a chunk (means)."""
    return max(program.slots, chunk) if program.hidden else program.slots


def export(program, chunk):
    """The exported program for 1 to all slots and 1 to chunk tokens a row."""
    dim = torch.export.Dim
    slots, cache = program.slots, program.positions
    if not 2 <= chunk < cache:
        raise ValueError(f"chunks of {chunk} tokens: expected 2 to {cache - 1} tokens")
    rows, tokens, context = dim("rows", min=1, max=slots), dim("tokens", min=1, max=chunk), dim("context", min=1, max=cache - 1)
    answers = dim("answers", min=1, max=answers_limit(program, chunk))
    example = (torch.zeros(2, 2, dtype=torch.long), torch.arange(2), torch.tensor([1, 0]), torch.tensor([2, 1]), torch.arange(3), torch.tensor([1, 2]))
    dims = {"input_ids": {0: rows, 1: tokens}, "slots": {0: rows}, "positions": {0: rows}, "lengths": {0: rows}, "span": {0: context}, "wanted": {0: answers}}
    if program.adapters:
        dims["adapter"] = {0: rows}
    with torch.no_grad():
        return torch.export.export(program, example + ((torch.tensor([1, 0]),) if program.adapters else ()), strict=False, dynamic_shapes=dims)


def shapes(program, chunk):
    """shapes.json of the exported program: decode steps and chunks of prompts are variants."""
    slots, cache = program.slots, program.positions
    tuned = lambda sizes, most: sorted({min(s, most) for s in sizes})
    return {"dims": {"rows": {"min": 1, "max": slots, "tune": tuned([1, slots], slots)},
                     "tokens": {"min": 1, "max": chunk, "tune": tuned([1, 32, chunk], chunk)},
                     "context": {"min": 1, "max": cache - 1, "tune": tuned([128, cache // 2], cache - 1)},
                     "answers": {"min": 1, "max": answers_limit(program, chunk), "tune": tuned([1, slots], slots)}},
            "inputs": {"input_ids": {"shape": ["rows", "tokens"]}, "slots": {"shape": ["rows"]}, "positions": {"shape": ["rows"]}, "lengths": {"shape": ["rows"]},
                       "span": {"shape": ["context"]}, "wanted": {"shape": ["answers"]}, **({"adapter": {"shape": ["rows"]}} if program.adapters else {})},
            "variants": [{"rows": 1, "tokens": 1}, {"tokens": 1}, {"rows": 1, "tokens": {"min": 2, "max": chunk}}, {}]}
