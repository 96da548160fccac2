"""A stretch that does not fit the length that the file states."""

from collections.abc import Iterator

from posenc.models.doctor.finding import Case, Finding, Words
from posenc.models.spec import ScalingSpec


def reach(case: Case) -> Iterator[Finding]:
    """original_length * factor is how far a scaling reaches; the file should not state more."""
    stated = case.spec.main.trained_length
    layers = (layer for layer in case.spec.layers if layer is not None and layer.rotary)
    spec = next((x.rotary for x in layers if x.rotary and "scaling" in x.rotary.settings), None)
    scaling = spec.settings["scaling"] if spec else ScalingSpec("Scaling", {})
    original, factor = (scaling.settings.get(x) for x in ("original_length", "factor"))
    if (
        not stated
        or not original
        or not factor
        or scaling.name not in ("Linear", "YaRN", "DynamicNTK")
    ):
        return
    if stated > original * factor * 1.001:
        yield Finding(
            "short-stretch",
            "warning",
            Words(
                "The scaling reaches {reached} tokens, and the file states {stated}.",
                "缩放到达 {reached} 个词元，而文件声明 {stated} 个。",
            ),
            keys=("factor", "max_position_embeddings"),
            numbers={"reached": int(original * factor), "stated": stated},
        )
