"""The runs that can be compared with each other, and their measured values by encoding and seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from posenc.lab.folder import Run
from posenc.lab.intervals import Sample

Protocol = Literal["targets", "windows"]
PROTOCOLS: tuple[Protocol, ...] = ("targets", "windows")


@dataclass(frozen=True)
class Measured:
    """What one finished run measured.

    `loss` and `spans` go by (protocol, length). A loss that is not a finite number is `math.inf`,
    and the run has diverged there. `missing` says why a length has none.
    """

    run: Run
    loss: dict[tuple[str, int], float]
    spans: dict[tuple[str, int], tuple[float, ...]]
    missing: dict[int, str]
    cost: dict[str, Any]
    seconds: float | None

    @property
    def diverged(self) -> bool:
        return math.inf in self.loss.values()


@dataclass(frozen=True)
class Study:
    """Finished runs that differ in encoding and seed alone; everything else stands apart."""

    setting: dict[str, Any]  # what the runs share
    train_length: int
    lengths: tuple[int, ...]  # the tested ones, ascending
    measured: dict[tuple[str, int], Measured]  # by encoding and seed
    unused: tuple[Run, ...]  # failed or unfinished, of the same setting
    foreign: tuple[Run, ...]  # of another setting, so not comparable

    @property
    def encodings(self) -> tuple[str, ...]:
        return tuple(sorted({encoding for encoding, _ in self.measured}))

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    def label(self, encoding: str) -> str:
        """`package.module:Class` as `Class`, where no other encoding is called so."""
        labels = [name.rpartition(":")[2] for name in self.encodings]
        label = encoding.rpartition(":")[2]
        return label if labels.count(label) == 1 else encoding

    def seeds(self, encoding: str) -> tuple[int, ...]:
        return tuple(sorted(seed for name, seed in self.measured if name == encoding))

    def of(self, encoding: str) -> list[Measured]:
        return [self.measured[encoding, seed] for seed in self.seeds(encoding)]

    def diverged(self, encoding: str) -> tuple[int, ...]:
        """The seeds with a loss, at any length and in either protocol, that is no finite number."""
        return tuple(s for s in self.seeds(encoding) if self.measured[encoding, s].diverged)

    def losses(self, protocol: Protocol, encoding: str, length: int) -> dict[int, float]:
        """Loss by seed, in nats per byte, of the seeds that have one; `math.inf` where diverged."""
        found = {s: self.measured[encoding, s].loss for s in self.seeds(encoding)}
        key = (protocol, length)
        return {seed: loss[key] for seed, loss in found.items() if key in loss}

    def sample(self, protocol: Protocol, encoding: str, length: int) -> Sample | None:
        """The losses of all seeds; None where a seed has none or diverged.

        It has no spans: another text would move the losses of all encodings together, which would
        only blur how they compare.
        """
        found = self._combined(protocol, length, {(encoding, length): 1}, models=1)
        return replace(found, spans=()) if found else None

    def rise(self, protocol: Protocol, encoding: str, length: int) -> Sample | None:
        """loss(length) - loss(train length) of the same model, by seed."""
        plus, minus = (encoding, length), (encoding, self.train_length)
        if plus == minus:
            return None
        return self._combined(protocol, length, {plus: 1, minus: -1}, models=0)

    def gap(self, protocol: Protocol, first: str, second: str, length: int) -> Sample | None:
        """loss of `first` - loss of `second` for the same seed, over the seeds that both have."""
        signs = {(first, length): 1, (second, length): -1}
        return self._combined(protocol, length, signs, models=2)

    def _combined(
        self,
        protocol: Protocol,
        length: int,
        signs: dict[tuple[str, int], int],
        models: int,
    ) -> Sample | None:
        """The signed sum of losses by seed, with what `intervals` wants to know of it."""
        # A diverged seed must not be dropped from a mean, or the survivors would be compared.
        if not all(self._complete(protocol, *one) for one in signs):
            return None
        names = {encoding for encoding, _ in signs}
        common = sorted(set.intersection(*(set(self.seeds(name)) for name in names)))
        if not common:
            return None
        values, spans = [], []
        for seed in common:
            runs = [
                (self.measured[name, seed], (protocol, n), sign)
                for (name, n), sign in signs.items()
            ]
            values.append(sum(sign * run.loss[key] for run, key, sign in runs))
            columns = [[sign * x for x in run.spans.get(key, ())] for run, key, sign in runs]
            spans.append(tuple(map(sum, zip(*columns, strict=False))))
        # The text's share of the error needs every seed, on the same spans.
        same = len({len(one) for one in spans}) == 1 and spans[0]
        return Sample(
            tuple(values),
            tuple(spans) if same else (),
            models=models,
            risen=sum(self._mean_rise(protocol, name, length) ** 2 for name in names),
        )

    def _complete(self, protocol: Protocol, encoding: str, length: int) -> bool:
        losses = self.losses(protocol, encoding, length)
        return len(losses) == len(self.seeds(encoding)) and _all_finite(losses.values())

    def _mean_rise(self, protocol: Protocol, encoding: str, length: int) -> float:
        ends = (length, self.train_length)
        if not all(self._complete(protocol, encoding, end) for end in ends):
            return 0.0
        last, first = (fmean(self.losses(protocol, encoding, end).values()) for end in ends)
        return last - first


def study_of(runs: Sequence[Run]) -> Study | None:
    """The study of the setting that was started last; None without any run.

    Runs of other settings (of the model, the budget or the encoding) are kept apart, because a loss
    after 800 steps says nothing beside a loss after 1600.
    """
    if not runs:
        return None
    by_start = sorted(runs, key=lambda run: str(run.manifest.get("started", "")))
    newest = by_start[-1]
    setting = setting_of(newest)
    own = [run for run in by_start if setting_of(run) == setting]
    # An encoding whose own settings changed is another encoding: its newest settings count.
    current = {run.config.encoding: run.config.settings for run in own}
    own = [run for run in own if run.config.settings == current[run.config.encoding]]
    done = [run for run in own if run.state == "done"]
    measured = {(run.config.encoding, run.config.seed): _measured(run) for run in done}
    tested = {length for one in measured.values() for _, length in one.loss}
    return Study(
        setting=setting,
        train_length=newest.config.train_length,
        lengths=tuple(sorted(tested | set(newest.config.test_lengths))),
        measured=measured,
        unused=tuple(run for run in own if run.state != "done"),
        foreign=tuple(run for run in by_start if run not in own),
    )


def setting_of(run: Run) -> dict[str, Any]:
    """What runs that can be compared share."""
    # `settings` is the encoding's own repr: it differs between encodings by nature.
    ours = ("encoding", "settings", "seed")
    return {key: value for key, value in run.config.to_json().items() if key not in ours}


def _measured(run: Run) -> Measured:
    """The last row of each kind counts: an interrupted run may have written one twice."""
    loss, spans, missing, cost, seconds = {}, {}, {}, {}, None
    for row in run.rows:
        match row:
            case {"kind": "loss", "protocol": str(protocol), "length": int(length)}:
                loss[protocol, length] = _number(row.get("loss"))
                spans[protocol, length] = _spans(row.get("spans"))
            # A model whose loss is not finite at a length is reported like one that cannot run it.
            case {"kind": "missing", "protocol": str(protocol), "length": int(length)} if str(
                row.get("reason")
            ).startswith("FloatingPointError"):
                loss[protocol, length] = math.inf
            case {"kind": "missing", "length": int(length)}:
                missing[length] = str(row.get("reason", "not measured"))
            case {"kind": "cost"}:
                cost = row
            case {"kind": "done", "seconds": int() | float() as seconds}:
                pass
    return Measured(run, loss, spans, missing, cost, seconds)


def _number(value: Any) -> float:
    """`value` as a finite float, else `math.inf`: a diverged loss may be null, NaN or text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else math.inf


def _spans(values: Any) -> tuple[float, ...]:
    numbers = tuple(map(_number, values)) if isinstance(values, list) else ()
    return numbers if _all_finite(numbers) else ()


def _all_finite(values: Any) -> bool:
    return all(map(math.isfinite, values))
