"""One model by several names, in what others wrap around it, and several models of one config."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import ConfigError, UnsupportedError
from posenc.models.attach import detach

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

pytestmark = [
    # peft 0.21 reads an attribute that transformers calls by another name.
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*offloaded.*"),
]
IDS = torch.randint(1, 64, (2, 12), generator=torch.Generator().manual_seed(1))
YARN = {"scaling": pe.YaRN(factor=4, original_length=16)}


def config() -> Any:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    # Large enough that a wrong rotation shows.
    return transformers.LlamaConfig(vocab_size=64, initializer_range=0.2, **sizes, **heads)


def new(of: Any = None) -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(of or config()).eval()


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model(input_ids=IDS).logits


def adapted(model: Any, **settings: Any) -> Any:
    """With LoRA, which changes nothing before it is trained unless it is told otherwise."""
    told = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **settings}
    return peft.get_peft_model(model, peft.LoraConfig(**told)).eval()


def table() -> pe.T5Bias:
    bias = pe.T5Bias(heads=4)
    torch.nn.init.normal_(bias.weight, generator=torch.Generator().manual_seed(5))
    return bias


def merged() -> tuple[Any, Any]:
    model = adapted(new())
    pe.attach(model)
    return model, model.merge_and_unload().eval()


def body_first() -> tuple[Any, Any]:
    model = new()
    return model.model, model


def pair_of(model: Any) -> tuple[Any, Any]:
    return model, model.get_base_model()


HANDLES = {
    "peft, merged": merged,
    "body, whole": body_first,
    "whole, body": lambda: body_first()[::-1],
    "peft, base": lambda: pair_of(adapted(new())),
    "base, peft": lambda: pair_of(adapted(new()))[::-1],
    "compiled twice": lambda: (torch.compile(new(), backend="eager"),) * 2,
}


@pytest.mark.parametrize("name", HANDLES)
def test_a_model_has_what_was_attached_last_by_whatever_handle(name: str) -> None:
    right, (first, second) = new(), HANDLES[name]()
    pe.attach(right, pe.Rotary(16, **YARN))
    pe.attach(first)
    pe.attach(second, pe.Rotary(16, **YARN))
    whole = first if hasattr(first, "lm_head") else second
    # Eager, for shapes are checked here by functions that nobody can trace.
    whole = getattr(whole, "_orig_mod", whole)
    torch.testing.assert_close(logits(whole), logits(right), rtol=0, atol=1e-5)
    detach(first)
    torch.testing.assert_close(logits(whole), logits(new()), rtol=0, atol=1e-5)


def test_what_is_learned_under_lora_is_saved_with_the_merged_model(tmp_path: Path) -> None:
    model = adapted(new())
    pe.attach(model, table())
    whole = model.merge_and_unload().eval()
    whole.save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    pe.attach(loaded)
    torch.testing.assert_close(logits(loaded), logits(whole))


def test_what_is_learned_and_replaced_is_not_passed_over() -> None:
    model = new()
    pe.attach(model, table())
    model = adapted(model, modules_to_save=["posenc.0"])
    with pytest.raises(UnsupportedError, match=r"posenc\.0 is ModulesToSaveWrapper in place of T5"):
        logits(model)


def test_lora_finds_no_layers_in_fire() -> None:
    fire = pe.FIRE(heads=4)
    for number, parameter in enumerate(fire.parameters()):
        generator = torch.Generator().manual_seed(number)
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    model = new()
    pe.attach(model, fire)
    before = logits(model)
    # It begins with parts of the weights, so that a layer that is read and not called would show.
    model = adapted(model, target_modules="all-linear", init_lora_weights="pissa")
    torch.testing.assert_close(logits(model), before, rtol=0, atol=1e-4)
    assert not [name for name, _ in model.named_parameters() if "posenc" in name and "lora" in name]


def test_the_record_of_another_model_is_not_taken() -> None:
    shared = config()
    one, two = new(shared), new(shared)
    attachment = pe.attach(one, table())
    with pytest.raises(ConfigError, match=r"shares its config.*copy\.deepcopy\(config\)"):
        pe.attach(two)
    copied = copy.deepcopy(shared)
    assert type(copied.posenc) is dict
    assert copied.posenc == shared.posenc
    # Of a model that is gone nothing is left to be taken for this one's.
    del one, attachment
    pe.attach(two)
    torch.testing.assert_close(logits(two), logits(new()), rtol=0, atol=1e-5)


def test_a_layer_is_copied_without_its_model() -> None:
    model = new()
    pe.attach(model, pe.ALiBi(heads=4))
    layer = model.model.layers[0]
    # It has one of two layers, and no embeddings.
    assert len(pickle.dumps(layer)) < len(pickle.dumps(model)) / 2
    other = new()
    other.model.layers[0] = copy.deepcopy(layer)
    with pytest.raises(UnsupportedError, match="from a model that they were taken or copied from"):
        pe.attach(other)
    detach(model)
    assert not [name for name in vars(layer.self_attn) if "posenc" in name]


def test_what_was_learned_is_in_files_alone() -> None:
    model = new()
    pe.attach(model, table())
    other = new(copy.deepcopy(model.config))
    with pytest.raises(ConfigError, match="loaded from no files"):
        pe.attach(other)


def test_attention_that_was_taken_away_is_told() -> None:
    shared = config()
    one, two = new(shared), new(shared)
    for model in (one, two):
        pe.attach(model, pe.ALiBi(heads=4))
    detach(one)
    with pytest.raises(UnsupportedError, match="its config says 'sdpa' for attention"):
        logits(two)
    pe.attach(two, pe.ALiBi(heads=4))
    two.set_attn_implementation("eager")
    with pytest.raises(UnsupportedError, match="its config says 'eager' for attention"):
        logits(two)


def test_a_model_without_memory_is_refused() -> None:
    with torch.device("meta"):
        model = new()
    with pytest.raises(UnsupportedError, match="no numbers on the meta device"):
        pe.attach(model, pe.ALiBi(heads=4))


def test_what_is_learned_lies_where_an_offloaded_model_computes(tmp_path: Path) -> None:
    whole = new()
    whole.save_pretrained(tmp_path / "model")
    pe.attach(whole, table())
    kept = ("model.norm", "model.rotary_emb", "lm_head")
    places = {"model.embed_tokens": "disk", "model.layers": "disk"} | dict.fromkeys(kept, "cpu")
    model = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "model", device_map=places, offload_folder=tmp_path / "aside"
    ).eval()
    pe.attach(model, table())
    torch.testing.assert_close(logits(model), logits(whole))


def test_the_hub_keeps_files_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit, model = "0" * 40, new()
    folder = tmp_path / "models--me--mine"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    pe.attach(model, table())
    model.save_pretrained(folder / "snapshots" / commit)
    loaded = transformers.LlamaForCausalLM.from_pretrained(
        "me/mine", cache_dir=tmp_path, local_files_only=True
    ).eval()
    pe.attach(loaded)
    torch.testing.assert_close(logits(loaded), logits(model))


def test_no_position_asks_nobody_where_tokens_stand() -> None:
    model, mask = new(), torch.ones_like(IDS)
    mask[0, 4:7] = 0
    pe.attach(model, pe.NoPE())
    made = model.generate(IDS, attention_mask=mask, max_new_tokens=3, do_sample=False)
    assert made.shape == (2, 15)


@torch.no_grad()
def test_threads_do_not_read_what_others_were_given() -> None:
    model = new()
    pe.attach(model)
    packed, counted = torch.tensor([[*range(5), *range(7)]]), torch.arange(12)[None]
    places = [counted, packed, counted, packed]

    def forward(at: torch.Tensor) -> torch.Tensor:
        return model(IDS[:1], position_ids=at, use_cache=False).logits

    expected = [forward(at) for at in places]
    # All have begun before any goes on to its layers.
    meeting = threading.Barrier(len(places))
    hook = model.model.layers[0].register_forward_pre_hook(lambda *_: void(meeting.wait(60)))
    with ThreadPoolExecutor(len(places)) as pool:
        made = list(pool.map(forward, places))
    hook.remove()
    for one, wanted in zip(made, expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-5)


def void(_: object) -> None:
    """A hook that returns something would give other inputs."""
