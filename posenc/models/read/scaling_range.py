"""Whether a scaling is in the range of its formula: what `build` asks, which needs torch."""

from collections.abc import Mapping

from posenc.errors import ConfigError, shown
from posenc.models.spec import ScalingSpec

# Where ramps begin and end, in turns of a pair, and what holds where nothing is said.
_RAMPS = {
    "YaRN": {"beta_slow": 1.0, "beta_fast": 32.0},
    "Llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
}
# Whose formulas divide by all pairs but one.
_SEVERAL_PAIRS = ("NTK", "DynamicNTK")


def check_range(spec: ScalingSpec, sources: Mapping[str, str], base: float, turned: int) -> None:
    """Raise ConfigError for settings that have no meaning where so many dimensions turn.

    `sources` say which key each setting came from.
    """
    settings, pairs = spec.settings, turned // 2

    def need(setting: str, fits: bool, wanted: str) -> None:
        if setting in settings and not fits:
            key, value = sources[f"scaling.{setting}"], shown(settings[setting])
            raise ConfigError(f"{key} is {value}: {wanted} is needed")

    need("factor", settings.get("factor", 1.0) >= 1, "a number of at least 1")
    for gain in ("attention_factor", "mscale", "mscale_all_dim"):
        need(gain, settings.get(gain, 1.0) > 0, "a number above 0")
    ends = _RAMPS.get(spec.name, {})
    for name in ends:
        slow, fast = (settings.get(end, own) for end, own in ends.items())
        need(name, 0 < slow <= fast, f"0 < {' <= '.join(ends)}")
    if spec.name == "LongRoPE":
        # By whose logarithm its own gain divides; `write` says 1 for a table of every length.
        divides = settings.get("attention_factor") is None
        need("original_length", settings["original_length"] > divides, "a length of at least 2")
        for name in ("short", "long"):
            wanted = f"a list of {pairs}, one for each pair that turns,"
            need(name, len(settings[name]) == pairs, wanted)
    if spec.name == "Proportional":
        need("fraction", 1 <= settings["fraction"] * pairs <= pairs, "a share that turns a pair")
    if (spec.name in _SEVERAL_PAIRS and pairs < 2) or (spec.name == "YaRN" and base <= 1):
        raise ConfigError(
            f"{sources['scaling']} asks for {spec.name}, whose formula has no meaning for "
            f"{pairs} pairs and a base of {base:g}"
        )
