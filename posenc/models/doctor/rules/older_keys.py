"""A base that only transformers 5 and its readers find."""

from collections.abc import Iterator

from posenc.errors import PosencError
from posenc.models.angles import compare
from posenc.models.doctor.finding import Case, Finding, Words
from posenc.models.read import read
from posenc.models.spellings import older, text, within_text
from posenc.models.values import plain_values


def older_keys(case: Case) -> Iterator[Finding]:
    """Whoever looks for rope_theta at the top finds none, and takes a default without a word."""
    values = text(plain_values(case.values))
    inner = values.get("rope_parameters")
    if not isinstance(inner, dict) or "rope_theta" not in inner:
        return
    if values.get("rope_theta") is not None:
        return
    patch = within_text(case.values, older(inner))
    del values["rope_parameters"]
    whole = dict(case.values)
    whole = whole | {"text_config": values} if "text_config" in whole else values
    try:
        effect = compare(case.spec, read(whole), case.target)
    except PosencError:
        return
    if effect is not None:
        yield Finding(
            "older-keys",
            "warning",
            Words(
                "rope_theta stands in rope_parameters alone: transformers 4 and what descends "
                "from it take their default base, and no scaling, without a word.",
                "rope_theta 只写在 rope_parameters 中：transformers 4 及其衍生代码会不声不响地使用默认基数，且不缩放。",
            ),
            keys=("rope_parameters.rope_theta",),
            effect=effect,
            patch={key: x for key, x in patch.items() if x is not None},
            link="https://github.com/vllm-project/vllm/issues/28542",
        )
