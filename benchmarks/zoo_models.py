"""The architectures of `benchmarks/zoo.py`: small configurations with random weights.

Each case has a name `library:architecture`, a builder, and a function from (batch, length) to the
example inputs by name, with the axes that are exported as dynamic. torch, torchvision, timm and
transformers are imported when a case is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Inputs = dict[str, Any]
Build = Callable[[], Any]

TEXT_SIZES = ((1, 1), (2, 7), (3, 12))

TORCHVISION = (
    "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s mnasnet0_5 maxvit_t"
    " mobilenet_v2 mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18 resnext50_32x4d"
    " shufflenet_v2_x0_5 squeezenet1_1 swin_t swin_v2_t vgg11 vit_b_32 lraspp_mobilenet_v3_large"
    " deeplabv3_mobilenet_v3_large fcn_resnet50 r3d_18 mc3_18 r2plus1d_18 s3d"
)
TORCHVISION_SIZES = {"maxvit_t": 224, "vit_b_32": 224, "alexnet": 96, "s3d": 224}
VIDEO = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d")

# Architectures of timm by the image size that they run at; a size with a star is `img_size=`.
TIMM = {
    "64": "test_byobnet test_efficientnet test_resnet test_convnext test_nfnet"
    " gcresnext26ts lambda_resnet26t convmixer_768_32"
    " cs3darknet_focus_s cspnext_tiny dla46_c dla60_res2net dpn48b"
    " ese_vovnet19b_slim efficientvit_b0 efficientvit_m0 fasternet_t0"
    " ghostnet_050 ghostnetv3_050 hgnetv2_b0 hrnet_w18_small"
    " inception_next_atto lcnetv2_small legacy_seresnet18 mambaout_femto mixnet_s nf_regnet_b0"
    " regnetv_040 regnetz_b16 repghostnet_050 repvgg_a0 repvit_m0_9 res2next50 resnest14d"
    " resnetv2_18 rexnet_100 selecsls42 skresnet18 starnet_s050"
    " tf_efficientnetv2_b0 xception41 mobileone_s0"
    " poolformerv2_s12 caformer_s18 rdnet_tiny shvit_s1 swiftformer_xs cpubone_b0_bfrobust"
    " lowformer_b0 davit_tiny efficientvim_m1",
    "96": "inception_v3 legacy_xception",
    "120*": "crossvit_9_240",
    "256": "bat_resnext26ts",
    "64*": "visformer_tiny test_vit test_vit2 test_vit3 beit_base_patch16_224 cait_xxs24_224"
    " convit_tiny deit3_small_patch16_224 eva02_tiny_patch14_224 gmlp_ti16_224 resmlp_12_224"
    " vit_relpos_small_patch16_224 xcit_nano_12_p16_224 samvit_base_patch16_224 tnt_s_patch16_224",
    "128*": "coat_lite_tiny nest_tiny pit_ti_224 twins_svt_small twins_pcpvt_small volo_d1_224"
    " hiera_tiny_224",
    "224": "efficientformer_l1 efficientformerv2_s0 gcvit_xxtiny mvitv2_tiny pvt_v2_b0"
    " swinv2_cr_tiny_224 swinv2_tiny_window8_256 tiny_vit_5m_224"
    " maxxvitv2_nano_rw_256 fastvit_t8 mobilevit_xxs halonet26t botnet26t_256"
    " vit_small_r26_s32_224 iformer_t",
}
TIMM_SIZES = {"swinv2_tiny_window8_256": 256, "maxvit_nano_rw_256": 256, "botnet26t_256": 256}
TIMM_SIZES |= {"maxxvitv2_nano_rw_256": 256, "halonet26t": 256, "sehalonet33ts": 256}

# Architectures of transformers by the kind of their inputs.
TRANSFORMERS = {
    "text": "bert roberta distilbert albert electra deberta deberta-v2 mpnet xlnet layoutlm xlm"
    " nystromformer longformer big_bird rembert roformer squeezebert mobilebert megatron-bert"
    " convbert camembert canine fnet funnel ibert lilt luke splinter tapas xmod yoso mra"
    " nomic_bert modernbert eurobert esm ernie data2vec-text roberta-prelayernorm roc_bert"
    " bert-generation bros xlm-roberta-xl flaubert visual_bert markuplm"
    " gpt2 gpt_neo gpt_neox gpt_bigcode gptj codegen opt bloom falcon mpt ctrl openai-gpt biogpt"
    " xglm imagegpt llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo olmo2 olmo3"
    " granite stablelm cohere cohere2 starcoder2 persimmon glm glm4 nemotron helium exaone4"
    " smollm3 diffllama arcee apertus bitnet ernie4_5 seed_oss modernbert-decoder mamba mamba2"
    " falcon_mamba rwkv recurrent_gemma xlstm jamba bamba falcon_h1 lfm2 minicpm3 youtu"
    " vaultgemma hunyuan_v1_dense ministral cwm internlm3 jetmoe reformer"
    " olmoe qwen3_moe mixtral granitemoe gpt_oss minimax doge ernie4_5_moe qwen3_next"
    " qwen3_5_text nanochat phimoe flex_olmo xlm-roberta jina_embeddings_v3 gpt_neox_japanese"
    " olmo_hybrid kimi_linear hrm_text gte mimo_v2_flash granite_swa jais2 ministral3"
    " clip_text_model cohere2_moe deepseek_v3 lfm2_moe granitemoehybrid esmc",
    "pairs": "t5 mt5 umt5 longt5 switch_transformers bart mbart marian pegasus pegasus_x"
    " blenderbot blenderbot-small m2m_100 plbart mvp led bigbird_pegasus prophetnet fsmt t5gemma"
    " nllb-moe",
    "image": "vit deit beit dinov2 dinov2_with_registers dinov3_vit dinov3_convnext"
    " data2vec-vision segformer detr mobilevit mobilevitv2 mobilenet_v1 mobilenet_v2 convnextv2 cvt"
    " dpt efficientnet focalnet glpn hiera ijepa levit poolformer pvt pvt_v2 regnet resnet bit"
    " swiftformer swin swinv2 swin2sr textnet vit_msn vitdet yolos clip_vision_model"
    " siglip_vision_model conditional_detr table-transformer hgnet_v2 aimv2_vision_model"
    " mlcd_vision_model donut-swin dab-detr deformable_detr maskformer sam_vision_model sapiens2"
    " pixio radio pp_ocrv6_tiny_rec sam_hq_vision_model sam3_vit_model convnext",
    "both": "clip siglip chinese_clip altclip flava blip git vilt owlvit groupvit clipseg"
    " metaclip_2",
    "audio": "wav2vec2 hubert wavlm unispeech unispeech-sat sew sew-d data2vec-audio"
    " wav2vec2-conformer",
}
# The inputs of other architectures of transformers: shapes in a batch b and a length t, of float32
# unless they begin with `int`.
OTHER_INPUTS = {
    "audio-spectrogram-transformer": {"input_values": "b 64 16"},
    "wav2vec2-bert": {"input_features": "b t 160"},
    "whisper": {"input_features": "b 80 40", "decoder_input_ids": "int b t"},
    "speech_to_text": {"input_features": "b 4*t 80", "decoder_input_ids": "int b t"},
    "moonshine": {"input_values": "b 2000", "decoder_input_ids": "int b t"},
    "dac": {"input_values": "b 1 512*t"},
    "univnet": {"input_features": "b t 100", "noise_sequence": "b t 64"},
    "timesformer": {"pixel_values": "b 4 3 32 32"},
    "vivit": {"pixel_values": "b 4 3 32 32"},
    "videomae": {"pixel_values": "b 4 3 32 32"},
    "vjepa2": {"pixel_values_videos": "b 4 3 32 32"},
    "patchtst": {"past_values": "b 32 3"},
    "patchtsmixer": {"past_values": "b 32 3"},
    "timesfm": {"past_values": "b 32", "past_values_padding": "int b 32", "freq": "int b 1"},
    "decision_transformer": {
        "states": "b t 17",
        "actions": "b t 4",
        "rewards": "b t 1",
        "returns_to_go": "b t 1",
        "timesteps": "int b t",
    },
    "lxmert": {
        "input_ids": "int b t",
        "visual_feats": "b 5 2048",
        "visual_pos": "b 5 4",
    },
    "perceiver": {"inputs": "b t 32"},
    "vit_mae": {"pixel_values": "b 3 32 32", "noise": "b 16"},
    "dpr": {"input_ids": "int b t"},
}

SMALL = {
    "hidden_size d_model n_embd embed_dim embedding_size emb_dim encoder_hidden_size"
    " decoder_hidden_size d_embed word_embed_proj_dim hidden_dim projection_dim"
    " projection_size": 32,
    "num_hidden_layers num_layers n_layer n_layers num_decoder_layers encoder_layers"
    " decoder_layers num_encoder_layers": 2,
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads attention_heads"
    " decoder_attention_heads": 4,
    "intermediate_size d_ff encoder_ffn_dim decoder_ffn_dim d_inner ffn_dim n_inner dff"
    " feed_forward_size": 64,
    "num_key_value_heads": 2,
    "head_dim d_kv rotary_dim": 8,
    "vocab_size": 99,
    "max_position_embeddings n_positions": 64,
    "image_size": 32,
    "patch_size": 8,
    "entity_vocab_size": 50,
}
SMALL_FIELDS = {field: value for fields, value in SMALL.items() for field in fields.split()}
LATENT_ATTENTION = {
    "num_key_value_heads": 4,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "qk_head_dim": 16,
    "v_head_dim": 8,
}
STATE_SPACE = {"mamba_chunk_size": 8, "mamba_d_state": 16}
WINDOWS = {"depths": [1, 1], "num_heads": [2, 4], "window_size": 2, "patch_size": 4}
# Fields without which the small configuration of an architecture is inconsistent.
FIELDS: dict[str, dict[str, Any]] = {
    "bamba": STATE_SPACE | {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1},
    "bros": {"hidden_size": 128},
    "convnext": {"image_size": 64},
    "efficientnet": {"hidden_dim": 2560},
    "levit": {"image_size": 64, "patch_size": 16},
    "swin": WINDOWS,
    "swinv2": WINDOWS,
    "donut-swin": WINDOWS,
    "swin2sr": WINDOWS | {"patch_size": 1, "window_size": 4},
    "deepseek_v3": LATENT_ATTENTION | {"head_dim": 8},
    "esmc": {"num_key_value_heads": 4},
    "granitemoehybrid": STATE_SPACE | {"mamba_n_heads": 8, "mamba_d_head": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "perceiver": {"d_model": 32, "d_latents": 32, "num_latents": 8, "num_blocks": 1},
    "patchtst": {"context_length": 32, "num_input_channels": 3},
    "patchtsmixer": {"context_length": 32, "num_input_channels": 3, "patch_length": 8},
    "timesfm": {"context_length": 32, "horizon_length": 8, "patch_length": 8},
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 16},
    "whisper": {"max_source_positions": 20},
    "timesformer": {"num_frames": 4},
    "vivit": {"num_frames": 4, "tubelet_size": [2, 8, 8]},
    "videomae": {"num_frames": 4},
    "vjepa2": {"crop_size": 32, "frames_per_clip": 4},
    "esm": {"pad_token_id": 1, "mask_token_id": 2},
    "convnextv2": {"image_size": 64},
    "falcon_h1": STATE_SPACE,
    "funnel": {"architectures": ["FunnelModel"], "block_sizes": [1, 1], "num_decoder_layers": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "lilt": {"hidden_size": 48},
    "minicpm3": LATENT_ATTENTION,
    "mamba2": {"num_heads": 8, "head_dim": 8, "chunk_size": 8, "state_size": 16},
    "mobilevitv2": {"image_size": 64, "patch_size": 2},
    "pegasus_x": {"block_size": 4, "num_global_tokens": 4},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "local"]},
    "youtu": LATENT_ATTENTION,
    "xmod": {"default_language": "en_XX"},
}
NEEDS_BOXES = ("bros",)


class Case(NamedTuple):
    """One architecture: how it is built, and its inputs for a batch and a length."""

    name: str
    build: Build
    inputs: Callable[[Any, int, int], Inputs]  # model, batch, length -> inputs by name
    axes: Mapping[str, tuple[int, ...]]  # the dynamic axes of each input
    sizes: tuple[tuple[int, int], ...]  # (batch, length) of each run

    @property
    def example(self) -> tuple[int, int]:
        """Returns the size of the export."""
        return self.sizes[1]


def cases() -> dict[str, Case]:
    """Returns all cases by name."""
    every = [*_torchvision_cases(), *_timm_cases(), *_transformers_cases()]
    return {case.name: case for case in every}


# ---- images


def _images(size: int, name: str = "x", frames: tuple[int, ...] = ()) -> Callable[..., Inputs]:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        return {name: importlib.import_module("torch").randn(batch, 3, *frames, size, size)}

    return inputs


def _image_case(name: str, build: Build, inputs: Callable[..., Inputs], key: str) -> Case:
    return Case(name, build, inputs, {key: (0,)}, ((1, 0), (2, 0), (3, 0)))


def _torchvision_cases() -> list[Case]:
    result = []
    for name in TORCHVISION.split():
        frames = ((16,) if name == "s3d" else (4,)) if name in VIDEO else ()
        key = "input" if name.startswith("lraspp") else "x"
        inputs = _images(TORCHVISION_SIZES.get(name, 64), key, frames)
        result.append(_image_case(f"torchvision:{name}", _torchvision(name), inputs, key))
    return result


def _torchvision(name: str) -> Build:
    def build() -> Any:
        models = importlib.import_module("torchvision.models")
        options = {"weights_backbone": None} if "backbone" in _options(models, name) else {}
        return models.get_model(name, weights=None, **options)

    return build


def _options(models: Any, name: str) -> str:
    return " ".join(models.get_model_builder(name).__annotations__)


def _timm_cases() -> list[Case]:
    result = []
    for size_text, names in TIMM.items():
        for name in names.split():
            size = TIMM_SIZES.get(name, int(size_text.rstrip("*")))
            options = {"img_size": size} if size_text.endswith("*") else {}
            build = _timm(name, options)
            result.append(_image_case(f"timm:{name}", build, _images(size), "x"))
    return result


def _timm(name: str, options: Mapping[str, Any]) -> Build:
    return lambda: importlib.import_module("timm").create_model(name, num_classes=10, **options)


# ---- transformers


def _transformers_cases() -> list[Case]:
    make = {"text": _text, "pairs": _pairs, "image": _image, "both": _both, "audio": _audio}
    cases = [make[kind](name) for kind, names in TRANSFORMERS.items() for name in names.split()]
    return cases + [_other(name, shapes) for name, shapes in OTHER_INPUTS.items()]


def _transformer(name: str) -> Build:
    def build() -> Any:
        transformers = importlib.import_module("transformers")
        configuration = transformers.AutoConfig.for_model(name)
        fields = small_fields(configuration.to_dict()) | FIELDS.get(name, {})
        small = type(configuration)(**fields)
        for part in (small, *(getattr(small, each) for each in small.sub_configs)):
            part.use_cache = False
        return transformers.AutoModel.from_config(small)

    return build


def small_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a configuration that make the model small, also of its parts."""
    result: dict[str, Any] = {}
    for name, value in fields.items():
        if name in SMALL_FIELDS and (value is None or isinstance(value, int)):
            result[name] = SMALL_FIELDS[name]
        elif name.endswith("token_id") and isinstance(value, int):
            result[name] = min(value, 2)  # below the size of the small vocabulary
        elif _is_part(name) and isinstance(value, dict) and value:
            rest = {key: each for key, each in value.items() if key != "layer_types"}
            result[name] = {**rest, **small_fields(value)}  # one type for each of fewer layers
    return result


def _is_part(name: str) -> bool:
    """Returns whether a field is the configuration of a part of the model."""
    return name.endswith("_config") or name in ("encoder", "decoder")


def _tokens(batch: int, length: int) -> Any:
    return importlib.import_module("torch").randint(3, 90, (batch, length))


def _mask(batch: int, length: int) -> Any:
    """Returns an attention mask whose last row ends in padding."""
    mask = importlib.import_module("torch").ones(batch, length, dtype=int)
    if length > 3 and batch > 1:
        mask[-1, -2:] = 0
    return mask


def _accepted(model: Any, inputs: Inputs) -> Inputs:
    """Returns the inputs that the model has a parameter for."""
    names = importlib.import_module("inspect").signature(type(model).forward).parameters
    return {name: value for name, value in inputs.items() if name in names}


def _text(name: str) -> Case:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        tokens, mask = _tokens(batch, length), _mask(batch, length)
        every = {"input_ids": tokens, "attention_mask": mask}
        if name in NEEDS_BOXES:
            every["bbox"] = importlib.import_module("torch").rand(batch, length, 4)
        return _accepted(model, every)

    axes = dict.fromkeys(("input_ids", "attention_mask", "bbox"), (0, 1))
    return Case(f"transformers:{name}", _transformer(name), inputs, axes, TEXT_SIZES)


def _pairs(name: str) -> Case:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        return {
            "input_ids": _tokens(batch, length),
            "attention_mask": _mask(batch, length),
            "decoder_input_ids": _tokens(batch, max(1, length - 2)),
        }

    axes = dict.fromkeys(("input_ids", "attention_mask", "decoder_input_ids"), (0, 1))
    return Case(f"transformers:{name}", _transformer(name), inputs, axes, TEXT_SIZES)


def _image_size(model: Any) -> int:
    parts = [getattr(model.config, name, None) for name in ("vision_config", "image_config")]
    configuration = next((part for part in parts if part is not None), model.config)
    size = getattr(configuration, "image_size", None) or 64
    return size if isinstance(size, int) else int(size[0])


def _pixels(model: Any, batch: int) -> Any:
    size = _image_size(model)
    return importlib.import_module("torch").randn(batch, 3, size, size)


def _image(name: str) -> Case:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        return {"pixel_values": _pixels(model, batch)}

    return _image_case(f"transformers:{name}", _transformer(name), inputs, "pixel_values")


def _both(name: str) -> Case:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        return {
            "input_ids": _tokens(batch, length),
            "pixel_values": _pixels(model, batch),
            "attention_mask": _mask(batch, length),
        }

    axes = {"input_ids": (0, 1), "pixel_values": (0,), "attention_mask": (0, 1)}
    return Case(f"transformers:{name}", _transformer(name), inputs, axes, TEXT_SIZES)


def _audio(name: str) -> Case:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        return {"input_values": importlib.import_module("torch").randn(batch, length)}

    sizes = ((1, 800), (2, 1000), (3, 1700))
    return Case(f"transformers:{name}", _transformer(name), inputs, {"input_values": (0, 1)}, sizes)


def _other(name: str, shapes: Mapping[str, str]) -> Case:
    def inputs(model: Any, batch: int, length: int) -> Inputs:
        return {key: _values(text, batch, length) for key, text in shapes.items()}

    axes = {key: _dynamic_axes(text) for key, text in shapes.items()}
    has_length = any(len(axes[key]) > 1 for key in axes)
    sizes = TEXT_SIZES if has_length else ((1, 0), (2, 0), (3, 0))
    return Case(f"transformers:{name}", _transformer(name), inputs, axes, sizes)


def _dynamic_axes(text: str) -> tuple[int, ...]:
    """Returns the axes of a shape such as `int b 4*t` that are a batch or a length."""
    sizes = text.removeprefix("int ").split()
    return tuple([axis for axis, size in enumerate(sizes) if not size.isdecimal()])


def _values(text: str, batch: int, length: int) -> Any:
    """Returns random values in a shape such as `int b 4*t`."""
    torch = importlib.import_module("torch")
    known = {"b": batch, "t": length}
    shape = []
    for size in text.removeprefix("int ").split():
        factors = [known[f] if f in known else int(f) for f in size.split("*")]
        shape.append(factors[0] * (factors[1] if len(factors) > 1 else 1))
    return torch.randint(0, 2, shape) if text.startswith("int ") else torch.randn(shape)
