"""The pictures of report.html, and what stands around them."""

from collections.abc import Sequence

from posenc.lab import curves, figures
from posenc.lab.aggregate import PROTOCOLS, Study
from posenc.lab.verdict import Verdict
from posenc.report.markup import Child, figure, small, tag
from posenc.words import Words


def pictures(study: Study, verdict: Verdict, say: Words, *, decided: bool) -> Child:
    """Loss against length by both protocols, by position, and the course of training."""
    drawn = {p: curves.length_curves(study, p, verdict.losses) for p in PROTOCOLS}
    every = [curve for protocol in PROTOCOLS for curve in drawn[protocol]]
    train, longest = study.train_length, study.longest
    shown = []
    for protocol in PROTOCOLS:
        picture = figures.by_length(
            drawn[protocol],
            train,
            study.lengths,
            curves.described(drawn[protocol], say(f"alt_{protocol}"), say),
            beside=every,
            mark=say("trained_at", train=train),
            axis=say("axis_length"),
        )
        title = say("per_byte", title=say(protocol))
        shown.append(figure(title, picture, say(f"caption_{protocol}")))
    positions, steps = curves.position_curves(study), curves.training_curves(study)
    if any(curve.finite for curve in positions):
        picture = figures.by_position(
            positions,
            train,
            curves.described(positions, say("alt_position"), say),
            mark=say("trained_to", train=train),
            axis=say("axis_position"),
        )
        title, caption = (say(f"{key}_position", longest=longest) for key in ("by", "caption"))
        shown.append(figure(title, picture, caption))
    if any(curve.finite for curve in steps):
        alt = curves.described(steps, say("alt_step"), say)
        picture = figures.training(steps, alt, axis=say("axis_step"))
        shown.append(figure(say("by_step"), picture, say("caption_step")))
    note = _note(study, every, say, decided=decided)
    return [tag("h2", say("against_length")), tag("div", shown, class_="figures"), small(note)]


def _note(study: Study, every: Sequence[figures.Curve], say: Words, *, decided: bool) -> str:
    """What lines, dots and bands are."""
    note = say("lines_decided" if decided else "lines_undecided") + say("lines_shaded")
    gone = [study.label(name) for name in study.encodings if study.diverged(name)]
    if gone:
        note += say("lines_gone", names=gone)
    if any(y > figures.HIGHEST for curve in every for _, y in curve.finite):
        note += say("lines_arrow")
    return note
