"""Test one trained model at several lengths, in two ways, on the same stretches of text.

windows    each span is cut into non-overlapping windows of the length; every byte is scored, so
           a short window scores more bytes that have little before them (the early-token effect)
targets    only the last bytes of each span are scored, with that length of text up to and with
           them; every length scores the same bytes

Losses are means in nats per byte.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor, nn

from posenc.lab.config import RunConfig

TOKENS_AT_ONCE = 8192
SCORES_AT_ONCE = 2**24
# Twice what so many tokens and scores take in float32: scores, weights, a mask, states, logits.
BYTES_AT_ONCE = 2**29

Row = dict[str, object]


def spans(text: UInt8[Tensor, " n"], length: int, count: int) -> Int64[Tensor, "s length_plus_1"]:
    """Up to `count` stretches of length + 1 bytes, spread evenly; only their ends may be shared."""
    count = min(count, (len(text) - 1) // length)
    last = len(text) - 1 - length
    starts = torch.arange(count) * last // max(count - 1, 1)
    return text[starts[:, None] + torch.arange(length + 1)].long()


def windows(
    chosen: Int64[Tensor, "s n"], length: int
) -> tuple[Int64[Tensor, "w t"], Int64[Tensor, "w t"]]:
    """Inputs, and the bytes after them, of the non-overlapping windows in each span."""
    whole = (chosen.shape[1] - 1) // length * length
    inputs = chosen[:, :whole].reshape(-1, length)
    return inputs, chosen[:, 1 : whole + 1].reshape(-1, length)


def at_once(tokens: int, heads: int, device: torch.device) -> int:
    """How many rows of so many tokens a model reads at a time; on a GPU, by its free memory."""
    times = 1
    if device.type == "cuda":
        times = max(1, torch.cuda.mem_get_info(device)[0] // BYTES_AT_ONCE)
    rows = min(TOKENS_AT_ONCE // tokens, SCORES_AT_ONCE // (heads * tokens**2))
    return max(1, times * rows)


def losses(
    model: nn.Module,
    inputs: Int64[Tensor, "w t"],
    targets: Int64[Tensor, "w t"],
    heads: int,
    tell: Callable[[int], None] = lambda tokens: None,
) -> Float64[Tensor, "w t"]:
    """The loss of every target, in batches whose scores fit a small memory.

    `tell` hears how many tokens each batch had.
    """
    device = next(model.parameters()).device
    batch = at_once(inputs.shape[1], heads, device)
    found = []
    for x, y in zip(inputs.split(batch), targets.split(batch), strict=True):
        logits = model(x.to(device)).flatten(0, 1).float()
        loss = F.cross_entropy(logits, y.to(device).flatten(), reduction="none")
        # Some devices have no float64.
        found.append(loss.cpu().view_as(y).double())
        tell(x.numel())
    return torch.cat(found)


def evaluate(
    model: nn.Module,
    config: RunConfig,
    text: UInt8[Tensor, " n"],
    tell: Callable[[float], None] = lambda fraction: None,
) -> Iterator[Row]:
    """Rows of both protocols at each test length, then of the loss by position at the longest.

    `loss` is the mean over the scored bytes, `spans` the means of each span, in the same order for
    every model, so that models can be compared span by span. A length past the train length at
    which the model raises gives `missing` rows with the reason; a loss that is not a finite number
    is None. `tell` hears the fraction done.
    """
    longest = max(config.test_lengths)
    chosen = spans(text, longest, config.spans)
    total = chosen.shape[0] * sum(longest + (n if n < longest else 0) for n in config.test_lengths)
    done = 0

    def count(tokens: int) -> None:
        nonlocal done
        done += tokens
        tell(done / total)

    for length in config.test_lengths:
        ends = chosen[:, -length - 1 : -1], chosen[:, -length:]
        try:
            by_window = losses(model, *windows(chosen, length), config.heads, count)
            # At the longest length the one window of a span ends with its targets.
            by_end = by_window if length == longest else losses(model, *ends, config.heads, count)
            by_target = by_end[:, -config.target_tokens :]
        except Exception as error:
            if length <= config.train_length:
                raise
            reason = f"{type(error).__name__}: {error}"
            for protocol in ("windows", "targets"):
                yield {"kind": "missing", "protocol": protocol, "length": length, "reason": reason}
            continue
        for protocol, found in (("windows", by_window), ("targets", by_target)):
            row = {"kind": "loss", "protocol": protocol, "length": length}
            yield row | {"tokens": found.numel(), **_means(found, len(chosen))}
        if length == longest and by_window.isfinite().all():
            width = max(1, config.train_length // 8)
            yield {
                "kind": "by_position",
                "length": length,
                "edges": [*range(0, length, width), length],
                "loss": [part.mean().item() for part in by_window.split(width, dim=1)],
            }


def _means(found: Float64[Tensor, "w t"], count: int) -> Row:
    if not found.isfinite().all():
        return {"loss": None}
    spans = found.view(count, -1).mean(1).tolist()
    return {"loss": found.mean().item(), "spans": [round(loss, 6) for loss in spans]}
