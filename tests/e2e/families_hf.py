"""Tiny, randomly initialised models of the transformers library. CASES: name -> make(); make() gives (module, example args, dynamic dims or None).

The dynamic dims of a case: one {dim: (min, max)} an input, or None for a static input. The sweep exports each case static and, where dims are given, dynamic."""
import torch
import torch.nn as nn
import transformers as tf

CASES = {}
B, T = 2, 12


class Wrap(nn.Module):
    """A model called by keyword with positional inputs, whose result is the tensors of the named fields."""

    def __init__(self, model, names, fields, fixed=None):
        super().__init__()
        self.model, self.names, self.fields, self.fixed = model, names, fields, fixed or {}

    def forward(self, *args):
        out = self.model(**dict(zip(self.names, args)), **self.fixed)
        got = [out[f] if isinstance(f, str) else out[f] for f in self.fields if f in out or not isinstance(f, str)]
        return tuple(t for t in got if t is not None)


def case(name):
    def add(f):
        CASES[name] = f
        return f

    return add


def ids(vocab=99, t=T):
    return torch.randint(2, vocab, (B, t))


def mask(t=T):
    m = torch.ones(B, t, dtype=torch.int64)
    m[1, t - 3 :] = 0
    return m


BATCH_SEQ = {0: (1, 4), 1: (4, 24)}
BATCH = {0: (1, 4)}


def text(name, model_class, config_class, fields=("last_hidden_state", "pooler_output", "logits"), masked=True, fixed=None, dims=True, **cfg):
    def make():
        model = getattr(tf, model_class)(getattr(tf, config_class)(**cfg))
        names = ("input_ids", "attention_mask") if masked else ("input_ids",)
        args = (ids(), mask()) if masked else (ids(),)
        return Wrap(model, names, fields, fixed), args, tuple(BATCH_SEQ for _ in args) if dims else None

    CASES[name] = make


ENC = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
for n in ("Bert", "Roberta", "Electra", "MPNet", "DebertaV2", "Camembert", "RoFormer", "Ernie", "MegatronBert", "ConvBert", "Nystromformer", "YosoX", "BertGeneration", "XLMRobertaXL", "Data2VecText", "IBert", "MobileBert", "SqueezeBert", "LayoutLM", "Splinter", "RemBert", "XmodX", "Esm"):
    extra = dict(
        Electra=dict(embedding_size=24),
        DebertaV2=dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True, type_vocab_size=0),
        ConvBert=dict(embedding_size=32),
        MobileBert=dict(embedding_size=16, intra_bottleneck_size=16),
        SqueezeBert=dict(embedding_size=32),
        RemBert=dict(input_embedding_size=16, output_embedding_size=32),
        RoFormer=dict(embedding_size=32),
        Esm=dict(pad_token_id=1, position_embedding_type="rotary"),
    ).get(n, {})
    if hasattr(tf, n + "Model"):
        text(n.lower(), n + "Model", n + "Config", **{**ENC, **extra})
    if n == "BertGeneration":
        text("bertgeneration", "BertGenerationEncoder", "BertGenerationConfig", **ENC)
text("distilbert", "DistilBertModel", "DistilBertConfig", vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64)
text("albert", "AlbertModel", "AlbertConfig", **{**ENC, "embedding_size": 16})
text("xlnet", "XLNetModel", "XLNetConfig", masked=True, fields=("last_hidden_state",), vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=64)
text("fnet", "FNetModel", "FNetConfig", masked=False, **{k: v for k, v in ENC.items() if k != "num_attention_heads"})
text("modernbert", "ModernBertModel", "ModernBertConfig", **{**ENC, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8, "attn_implementation": "sdpa"})
text("longformer", "LongformerModel", "LongformerConfig", dims=False, attention_window=4, **ENC)
text("bigbird", "BigBirdModel", "BigBirdConfig", attention_type="original_full", **ENC)
text("bert_mlm", "BertForMaskedLM", "BertConfig", **ENC)
text("bert_classify", "BertForSequenceClassification", "BertConfig", **ENC)

DEC = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GQA = {**DEC, "num_key_value_heads": 2}
for n, extra in dict(
    Llama={}, Mistral=dict(sliding_window=8), Qwen2={}, Qwen3=dict(head_dim=8), Gemma=dict(head_dim=8), Gemma2=dict(head_dim=8, sliding_window=8), Gemma3Text=dict(head_dim=8, sliding_window=8),
    Phi={}, Phi3=dict(), Olmo={}, Olmo2={}, StableLm={}, Starcoder2={}, Cohere={}, Granite={}, Persimmon={}, SmolLM3={}, Nemotron={}, Glm=dict(head_dim=8), Helium=dict(head_dim=8), Ernie4_5=dict(head_dim=8), Exaone4=dict(sliding_window=8),
    Mixtral=dict(num_local_experts=4, num_experts_per_tok=2), Qwen2Moe=dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=32), Qwen3Moe=dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8),
    Olmoe=dict(num_experts=4, num_experts_per_tok=2), GptOss=dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=8), GraniteMoe=dict(num_local_experts=4, num_experts_per_tok=2), Phimoe=dict(num_local_experts=4, num_experts_per_tok=2),
    DeepseekV3=dict(n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1, num_key_value_heads=4),
).items():
    if hasattr(tf, n + "ForCausalLM") or n == "Gemma3Text":
        text(n.lower(), "Gemma3ForCausalLM" if n == "Gemma3Text" else n + "ForCausalLM", n + "Config", **{**GQA, **extra})
GPT = dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False)
text("gpt2", "GPT2LMHeadModel", "GPT2Config", **GPT)
text("gptj", "GPTJForCausalLM", "GPTJConfig", rotary_dim=8, **GPT)
text("codegen", "CodeGenForCausalLM", "CodeGenConfig", rotary_dim=4, **GPT)
text("gptbigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", **GPT)
text("openai_gpt", "OpenAIGPTModel", "OpenAIGPTConfig", vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
text("gptneo", "GPTNeoForCausalLM", "GPTNeoConfig", vocab_size=99, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4, max_position_embeddings=64, window_size=8, use_cache=False)
text("gptneox", "GPTNeoXForCausalLM", "GPTNeoXConfig", **DEC)
text("opt", "OPTForCausalLM", "OPTConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, max_position_embeddings=64, word_embed_proj_dim=32, use_cache=False)
text("bloom", "BloomForCausalLM", "BloomConfig", vocab_size=99, hidden_size=32, n_layer=2, n_head=4, use_cache=False)
text("mpt", "MptForCausalLM", "MptConfig", vocab_size=99, d_model=32, n_layers=2, n_heads=4, max_seq_len=64, expansion_ratio=2, use_cache=False)
text("falcon", "FalconForCausalLM", "FalconConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, use_cache=False)
text("falcon_alibi", "FalconForCausalLM", "FalconConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True, use_cache=False)
text("ctrl", "CTRLModel", "CTRLConfig", masked=False, vocab_size=99, n_positions=64, n_embd=32, dff=64, n_layer=2, n_head=4, use_cache=False)
text("xglm", "XGLMForCausalLM", "XGLMConfig", vocab_size=99, d_model=32, ffn_dim=64, num_layers=2, attention_heads=4, max_position_embeddings=64, use_cache=False)
text("biogpt", "BioGptForCausalLM", "BioGptConfig", **DEC)
text("mamba", "MambaForCausalLM", "MambaConfig", masked=False, dims=False, vocab_size=99, hidden_size=32, state_size=4, num_hidden_layers=1, use_cache=False)
text("mamba2", "Mamba2ForCausalLM", "Mamba2Config", masked=False, dims=False, vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=1, num_heads=4, head_dim=16, n_groups=1, chunk_size=4, use_cache=False)
text("rwkv", "RwkvForCausalLM", "RwkvConfig", masked=False, dims=False, vocab_size=99, hidden_size=32, attention_hidden_size=32, num_hidden_layers=2, context_length=32, use_cache=False)
text("recurrent_gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", dims=False, **{**GQA, "lru_width": 32, "attention_window_size": 8, "num_hidden_layers": 3})
text("t5_encoder", "T5EncoderModel", "T5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
text("mt5_encoder", "MT5EncoderModel", "MT5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
text("clip_text", "CLIPTextModel", "CLIPTextConfig", **{**ENC, "eos_token_id": 2})
text("siglip_text", "SiglipTextModel", "SiglipTextConfig", **ENC, fixed=None)


def seq2seq(name, model_class, config_class, **cfg):
    def make():
        model = getattr(tf, model_class)(getattr(tf, config_class)(**cfg))
        return Wrap(model, ("input_ids", "attention_mask", "decoder_input_ids"), ("last_hidden_state", "logits"), dict(use_cache=False)), (ids(), mask(), ids(t=7)), (BATCH_SEQ, BATCH_SEQ, {0: (1, 4), 1: (3, 16)})

    CASES[name] = make


S2S = dict(vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=0)
seq2seq("t5", "T5ForConditionalGeneration", "T5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
for n in ("Bart", "MBart", "Pegasus", "Marian", "Blenderbot", "M2M100", "PLBart"):
    seq2seq(n.lower(), n + "Model", n + "Config", **S2S)
seq2seq("led", "LEDModel", "LEDConfig", **{**S2S, "attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64})


def image(name, model_class, config_class, size=32, fields=("last_hidden_state", "pooler_output", "logits", "image_embeds", "pred_boxes", "predicted_depth"), fixed=None, dims=BATCH, batch=B, **cfg):
    def make():
        model = getattr(tf, model_class)(getattr(tf, config_class)(**cfg))
        return Wrap(model, ("pixel_values",), fields, fixed), (torch.randn(batch, 3, size, size),), (dims,) if dims else None

    CASES[name] = make


VIT = dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
for n in ("ViT", "DeiT", "Dinov2", "ViTMSN", "ViTHybridX", "Dinov2WithRegisters", "Ijepa", "DINOv3ViT"):
    if hasattr(tf, n + "Model"):
        image(n.lower(), n + "Model", n + "Config", **VIT)
image("beit", "BeitModel", "BeitConfig", use_relative_position_bias=True, **VIT)
image("data2vec_vision", "Data2VecVisionModel", "Data2VecVisionConfig", use_relative_position_bias=True, **VIT)
image("clip_vision", "CLIPVisionModelWithProjection", "CLIPVisionConfig", projection_dim=16, **VIT)
image("siglip_vision", "SiglipVisionModel", "SiglipVisionConfig", **VIT)
image("swin", "SwinModel", "SwinConfig", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
image("swinv2", "Swinv2Model", "Swinv2Config", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
image("donut_swin", "DonutSwinModel", "DonutSwinConfig", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
image("convnext", "ConvNextForImageClassification", "ConvNextConfig", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=7)
image("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2Config", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=7)
image("resnet", "ResNetForImageClassification", "ResNetConfig", embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], num_labels=7)
image("regnet", "RegNetForImageClassification", "RegNetConfig", embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], groups_width=4, num_labels=7)
image("mobilenet_v1", "MobileNetV1ForImageClassification", "MobileNetV1Config", depth_multiplier=0.25, image_size=32, num_labels=7)
image("mobilenet_v2", "MobileNetV2ForImageClassification", "MobileNetV2Config", depth_multiplier=0.35, image_size=32, num_labels=7)
image("mobilevit", "MobileViTModel", "MobileViTConfig", size=64, image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 64], num_attention_heads=4)
image("mobilevit_v2", "MobileViTV2Model", "MobileViTV2Config", size=64, image_size=64, width_multiplier=0.25)
image("efficientnet", "EfficientNetModel", "EfficientNetConfig", size=64, image_size=64, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320)
image("bit", "BitModel", "BitConfig", size=64, embedding_size=8, hidden_sizes=[16, 32, 40, 64], depths=[1, 1, 1, 1], num_groups=4)
image("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32)
image("pvt", "PvtModel", "PvtConfig", size=64, image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
image("pvt_v2", "PvtV2Model", "PvtV2Config", size=64, image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
image("poolformer", "PoolFormerModel", "PoolFormerConfig", size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
image("levit", "LevitModel", "LevitConfig", size=64, image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], key_dim=[8, 8, 8], depths=[1, 1, 1])
image("cvt", "CvtModel", "CvtConfig", size=64, embed_dim=[16, 24, 32], num_heads=[1, 2, 4], depth=[1, 1, 1])
image("focalnet", "FocalNetModel", "FocalNetConfig", image_size=32, patch_size=2, embed_dim=16, hidden_sizes=[16, 32], depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3])
image("hiera", "HieraModel", "HieraConfig", size=64, image_size=[64, 64], embed_dim=16, depths=[1, 1, 1], num_heads=[1, 2, 4], patch_stride=[4, 4], num_query_pool=2)
image("swiftformer", "SwiftFormerModel", "SwiftFormerConfig", size=64, image_size=64, embed_dims=[8, 16, 24, 32], depths=[1, 1, 1, 1])
image("yolos", "YolosForObjectDetection", "YolosConfig", size=32, num_detection_tokens=5, num_labels=3, **{**VIT, "image_size": [32, 32]})
image("dpt", "DPTForDepthEstimation", "DPTConfig", backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, **{**VIT, "num_hidden_layers": 4})
image("depth_anything", "GLPNForDepthEstimation", "GLPNConfig", size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)
image("vit_mae_less", "ViTForImageClassification", "ViTConfig", num_labels=7, **VIT)
image("upernet_swin", "Swin2SRModel", "Swin2SRConfig", image_size=32, patch_size=1, embed_dim=16, depths=[2], num_heads=[2], window_size=4, fields=("last_hidden_state",))
image("swin2sr", "Swin2SRForImageSuperResolution", "Swin2SRConfig", image_size=16, size=16, patch_size=1, embed_dim=16, depths=[2], num_heads=[2], window_size=4, upscale=2, fields=("reconstruction",))
image("timm_like_vitdet", "VitDetModel", "VitDetConfig", dims=None, image_size=32, pretrain_image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, window_block_indices=[0], window_size=2, use_relative_position_embeddings=True)
image("superpoint_like_textnet", "TextNetModel", "TextNetConfig", size=64, fields=("last_hidden_state", "pooler_output"))
image("dab_sam_vision", "SamVisionModel", "SamVisionConfig", size=64, dims=None, image_size=64, patch_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, output_channels=16, window_size=2, global_attn_indexes=[1], mlp_dim=64)


@case("detr")
def detr():
    backbone = tf.ResNetConfig(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], out_features=["stage4"])
    cfg = tf.DetrConfig(backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=5)
    return Wrap(tf.DetrForObjectDetection(cfg), ("pixel_values",), ("logits", "pred_boxes")), (torch.randn(1, 3, 64, 64),), None


@case("rt_detr")
def rt_detr():
    backbone = tf.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"], layer_type="basic")
    cfg = tf.RTDetrConfig(backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, encoder_hidden_dim=32, encoder_in_channels=[24, 32, 40], d_model=32, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, decoder_in_channels=[32, 32, 32], num_queries=10, num_denoising=0, num_labels=5)
    return Wrap(tf.RTDetrForObjectDetection(cfg), ("pixel_values",), ("logits", "pred_boxes")), (torch.randn(1, 3, 64, 64),), None


@case("clip")
def clip():
    cfg = tf.CLIPConfig(text_config={**ENC, "eos_token_id": 2}, vision_config=VIT, projection_dim=16)
    return Wrap(tf.CLIPModel(cfg), ("input_ids", "pixel_values", "attention_mask"), ("logits_per_image", "text_embeds", "image_embeds")), (ids(), torch.randn(B, 3, 32, 32), mask()), None


@case("perceiver")
def perceiver():
    cfg = tf.PerceiverConfig(num_latents=6, d_latents=32, d_model=24, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=4, vocab_size=99)
    return Wrap(tf.PerceiverModel(cfg), ("inputs",), ("last_hidden_state",)), (torch.randn(B, T, 24),), ({0: (1, 4), 1: (4, 24)},)


@case("whisper_encoder")
def whisper_encoder():
    cfg = tf.WhisperConfig(vocab_size=99, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return Wrap(tf.WhisperModel(cfg).encoder, ("input_features",), ("last_hidden_state",)), (torch.randn(B, 8, 40),), (BATCH,)


@case("whisper_decoder")
def whisper_decoder():
    cfg = tf.WhisperConfig(vocab_size=99, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return Wrap(tf.WhisperModel(cfg).decoder, ("input_ids", "encoder_hidden_states"), ("last_hidden_state",), dict(use_cache=False)), (ids(t=7), torch.randn(B, 20, 32)), ({0: (1, 4), 1: (3, 16)}, BATCH)


def audio(name, model_class, config_class, dims=BATCH, names=("input_values",), shape=(B, 400), **cfg):
    def make():
        model = getattr(tf, model_class)(getattr(tf, config_class)(**cfg))
        return Wrap(model, names, ("last_hidden_state", "logits", "audio_codes", "audio_values", "waveform", "spectrogram")), (torch.randn(*shape),), (dims,) if dims else None

    CASES[name] = make


AUD = dict(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(5, 2), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
for n in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "SEW", "Data2VecAudio"):
    audio(n.lower(), n + "Model", n + "Config", **{**AUD, **(dict(squeeze_factor=1) if n == "SEW" else {})})
audio("wav2vec2_ctc_ln", "Wav2Vec2ForCTC", "Wav2Vec2Config", feat_extract_norm="layer", do_stable_layer_norm=True, **AUD)
audio("ast", "ASTModel", "ASTConfig", shape=(B, 40, 16), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, patch_size=8, frequency_stride=8, time_stride=8, max_length=40, num_mel_bins=16)
audio("encodec", "EncodecModel", "EncodecConfig", dims=None, shape=(B, 1, 640), num_filters=4, hidden_size=16, codebook_size=32, codebook_dim=16, upsampling_ratios=[4, 2], num_lstm_layers=1, target_bandwidths=[24.0])
audio("dac", "DacModel", "DacConfig", dims=None, shape=(B, 1, 640), encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=32, n_codebooks=2, codebook_size=16, codebook_dim=4)
audio("vits_like_univnet", "SpeechT5HifiGan", "SpeechT5HifiGanConfig", dims=None, names=("spectrogram",), shape=(B, 6, 8), model_in_dim=8, upsample_initial_channel=16, upsample_rates=[2, 2], upsample_kernel_sizes=[4, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]])


@case("time_series_patchtst")
def patchtst():
    cfg = tf.PatchTSTConfig(num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=32, prediction_length=4)
    return Wrap(tf.PatchTSTForPrediction(cfg), ("past_values",), ("prediction_outputs",)), (torch.randn(B, 32, 3),), (BATCH,)


@case("time_series_patchtsmixer")
def patchtsmixer():
    cfg = tf.PatchTSMixerConfig(num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=16, num_layers=2, prediction_length=4)
    return Wrap(tf.PatchTSMixerForPrediction(cfg), ("past_values",), ("prediction_outputs",)), (torch.randn(B, 32, 3),), (BATCH,)


@case("decision_transformer")
def decision():
    cfg = tf.DecisionTransformerConfig(state_dim=5, act_dim=3, hidden_size=32, max_ep_len=32, n_layer=2, n_head=4)
    args = (torch.randn(B, 4, 5), torch.randn(B, 4, 3), torch.randn(B, 4, 1), torch.randn(B, 4, 1), torch.arange(4).expand(B, 4).contiguous(), torch.ones(B, 4, dtype=torch.int64))
    return Wrap(tf.DecisionTransformerModel(cfg), ("states", "actions", "rewards", "returns_to_go", "timesteps", "attention_mask"), ("state_preds", "action_preds", "return_preds")), args, None


@case("videomae")
def videomae():
    cfg = tf.VideoMAEConfig(**VIT, num_frames=4, tubelet_size=2)
    return Wrap(tf.VideoMAEModel(cfg), ("pixel_values",), ("last_hidden_state",)), (torch.randn(B, 4, 3, 32, 32),), (BATCH,)


@case("timesformer")
def timesformer():
    cfg = tf.TimesformerConfig(**VIT, num_frames=4)
    return Wrap(tf.TimesformerModel(cfg), ("pixel_values",), ("last_hidden_state",)), (torch.randn(B, 4, 3, 32, 32),), (BATCH,)


@case("blip_vision")
def blip():
    return Wrap(tf.BlipVisionModel(tf.BlipVisionConfig(**VIT)), ("pixel_values",), ("last_hidden_state", "pooler_output")), (torch.randn(B, 3, 32, 32),), (BATCH,)


@case("layoutlmv3_text_boxes")
def layoutlm():
    cfg = tf.LayoutLMv3Config(**ENC, coordinate_size=6, shape_size=4, has_relative_attention_bias=True, has_spatial_attention_bias=True, visual_embed=False, max_2d_position_embeddings=128, rel_pos_bins=8, rel_2d_pos_bins=8)
    corner = torch.randint(0, 50, (B, T, 2))
    return Wrap(tf.LayoutLMv3Model(cfg), ("input_ids", "bbox", "attention_mask"), ("last_hidden_state",)), (ids(), torch.cat([corner, corner + 5], -1), mask()), None
