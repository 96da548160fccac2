"""What a trained model makes of a text whose positions are shifted, or that has words in front.

posenc compare --seeds 5 --encodings none,sinusoidal,learned,rotary
python -m tools.experiments.shift posenc-compare        its models, a minute on one core
python -m tools.experiments.shift MODEL                 one of transformers, a folder or a GGUF file

Models of the lab read the last 32 of 64 bytes of its test text. Others read 64 tokens of Python's
own help pages. What is in front is as long a piece of another place.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import posenc as pe
from posenc.lab.evaluate import spans
from posenc.lab.text import standard_library
from posenc.model import Attention
from posenc.models.loading import load_model
from tools.experiments.intervals import mean_of, shown
from tools.experiments.trained import runs_of, trained

LAB_TOKENS, LAB_TEXTS, LAB_SHIFTS = 32, 256, (1, 8, 32, 64, 256)
TOKENS, TEXTS, SHIFTS = 64, 16, (1, 8, 64, 256)


@dataclass(frozen=True, eq=False)
class Read:
    """What a model says of texts: logits or hidden states (b, t, n), and where it looks.

    attention has a tensor (b, h, t, t) for each layer.
    """

    output: Tensor
    attention: Sequence[Tensor]
    logits: bool

    def behind(self, front: int) -> "Read":
        """What it says of all but the first tokens, which attention still has as keys."""
        attention = [weights[:, :, front:] for weights in self.attention]
        return Read(self.output[:, front:], attention, self.logits)


# ids (b, t) at positions (t,), as the model would have them where none are given.
Reader = Callable[[Tensor, Tensor], Read]


def lab_reader(model: pe.Transformer) -> Reader:
    def read(ids: Tensor, at: Tensor) -> Read:
        positions = pe.Positions.build(ids=at, causal=True)
        seen: list[Tensor] = []

        def watch(layer: nn.Module, given: tuple[Any, ...]) -> None:
            assert isinstance(layer, Attention)
            q, k = (
                project(given[0]).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
                for project in (layer.query, layer.key)
            )
            seen.append(pe.scores(q, k, given[1]).softmax(dim=-1))

        layers = [layer for layer in model.modules() if isinstance(layer, Attention)]
        hooks = [layer.register_forward_pre_hook(watch) for layer in layers]
        try:
            return Read(model(ids, positions), seen, logits=True)
        finally:
            for hook in hooks:
                hook.remove()

    return read


def reader(model: Any) -> Reader:
    model.set_attn_implementation("eager")

    def read(ids: Tensor, at: Tensor) -> Read:
        out = model(ids, position_ids=at[None], output_attentions=True)
        logits = getattr(out, "logits", None)
        output = out[0] if logits is None else logits
        return Read(output, out.attentions, logits is not None)

    return read


def effect(before: Read, after: Read, ids: Tensor) -> dict[str, Tensor]:
    """What changed in the reading of ids (b, t), one number for each text.

    change  mean |after - before| by the deviation of `before`
    kl      of the prediction, nats per token
    loss    by how much the loss of the next token of the text grew
    first   share of attention that went to the first token that was read, of later ones
    front   share of attention that went to what is in front of the text
    even    that share if all keys that a token sees had as much
    """
    apart = (after.output - before.output).abs().mean(dim=(1, 2))
    found = {"change": apart / before.output.std()}
    if before.logits:
        old, new = before.output.log_softmax(dim=-1), after.output.log_softmax(dim=-1)
        found["kl"] = (old.exp() * (old - new)).sum(dim=-1).mean(dim=-1)
        found["loss"] = _loss(after.output, ids) - _loss(before.output, ids)
    front = after.attention[0].shape[-1] - ids.shape[1]
    later = [weights[:, :, 1:, 0].mean(dim=(1, 2)) for weights in after.attention]
    found["first"] = torch.stack(later).mean(dim=0)
    if front:
        shares = [weights[..., :front].sum(dim=-1).mean(dim=(1, 2)) for weights in after.attention]
        found["front"] = torch.stack(shares).mean(dim=0)
        visible = (after.attention[0][0, 0] > 0).double()
        even = visible[:, :front].sum(dim=-1) / visible.sum(dim=-1)
        found["even"] = even.mean().expand(len(ids))
    return found


def _loss(logits: Tensor, ids: Tensor) -> Tensor:
    said = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return said.view(len(ids), -1).mean(dim=-1)


@torch.inference_mode()
def effects(
    read: Reader, ids: Tensor, before: Tensor, shifts: Sequence[int], first: Tensor | None = None
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Effects of shifting texts (b, t) and of putting the end of `before` (b, s) in front.

    `first` (1,) is a token that stays before everything, as [CLS].
    """
    lead = ids[:, :0] if first is None else first.expand(len(ids), 1)
    head = lead.shape[1]

    def reading(*parts: Tensor, at: int = 0) -> Read:
        whole = torch.cat((lead, *parts), dim=1)
        return read(whole, torch.arange(at, at + whole.shape[1]))

    plain = reading(ids).behind(head)
    for shift in shifts:
        yield f"shifted by {shift}", effect(plain, shifted(reading(ids, at=shift), head), ids)
    for shift in [s for s in shifts if s <= before.shape[1]]:
        found = reading(before[:, -shift:], ids).behind(head + shift)
        yield f"{shift} in front", effect(plain, cut(found, head), ids)


def shifted(read: Read, head: int) -> Read:
    return cut(read.behind(head), head)


def cut(read: Read, head: int) -> Read:
    """Without the first keys, which every text has."""
    return Read(read.output, [weights[..., head:] for weights in read.attention], read.logits)


def of_lab(folder: Path) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Effects of the lab's models, encoding by encoding: one number for each seed."""
    test = torch.frombuffer(bytearray(standard_library().test), dtype=torch.uint8)
    text = spans(test, 2 * LAB_TOKENS - 1, LAB_TEXTS)
    ids = text[:, LAB_TOKENS:]
    elsewhere = text[:, :LAB_TOKENS].roll(LAB_TEXTS // 2, dims=0)
    for name, runs in runs_of(folder).items():
        by_what: dict[str, dict[str, list[float]]] = {}
        for run in runs:
            reads = lab_reader(trained(run).double())
            reach = max(run.config.test_lengths) - LAB_TOKENS
            shifts = [shift for shift in LAB_SHIFTS if shift <= reach]
            for what, found in effects(reads, ids, elsewhere, shifts):
                into = by_what.setdefault(what, {})
                for measure, values in found.items():
                    into.setdefault(measure, []).append(values.mean().item())
        for what, found in by_what.items():
            yield f"{name}, {what}", found


def of_model(source: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Effects on a model of transformers: one number for each text."""
    from pydoc_data.topics import topics

    model, tokenizer = load_model(source)
    pages = [topics[name] for name in sorted(topics)]
    read = [tokenizer(page, add_special_tokens=False)["input_ids"] for page in pages]
    whole = [page for page in read if len(page) > 400]
    chosen = torch.tensor([page[20 : 20 + 320] for page in whole[:: len(whole) // TEXTS][:TEXTS]])
    ids, elsewhere = chosen[:, :TOKENS], chosen.roll(1, dims=0)[:, TOKENS:]
    encoder = tokenizer.cls_token_id is not None
    first = torch.tensor([tokenizer.cls_token_id]) if encoder else None
    by_what: dict[str, dict[str, list[float]]] = {}
    for one, other in zip(ids.split(1), elsewhere.split(1), strict=True):
        for what, found in effects(reader(model), one, other, SHIFTS, first):
            into = by_what.setdefault(what, {})
            for measure, values in found.items():
                into.setdefault(measure, []).append(values.item())
    yield from by_what.items()


def main() -> None:
    source = Path(sys.argv[1])
    found = of_lab(source) if (source / "runs").is_dir() else of_model(sys.argv[1])
    columns = ("change", "kl", "loss", "first", "front", "even")
    print("|", " | ".join(("", *columns)), "|")
    print("|---" * (len(columns) + 1) + "|")
    for what, by_measure in found:
        cells = [shown(mean_of(by_measure[c])) if c in by_measure else "" for c in columns]
        print("|", " | ".join((what, *cells)), "|", flush=True)


if __name__ == "__main__":
    main()
