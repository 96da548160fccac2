"""What the pages of all reports say."""

from posenc.words import Texts

SHARED: Texts = {
    # What a screen reader says of a curve, after what the picture is of.
    "alt_curve": (
        "{name} {first} at {start:g} and {last} at {end:g}",
        "{name} 在 {start:g} 处 {first}，在 {end:g} 处 {last}",
    ),
    "alt": ("{what} {curves}.", "{what}{curves}。"),
    "title": ("{headline} ({command})", "{headline}（{command}）"),
    "comma": (", ", "，"),
    "semicolon": ("; ", "；"),
    "diverged": ("diverged", "发散"),
    "range": ("{low} to {high}", "{low} 至 {high}"),
    "encoding": ("Encoding", "编码"),
    "best": ("best", "最好"),
    "tie": (" tie", " 平"),
}
