"""SVG in fewer letters: short ids, shared styles, and no digits that nobody sees."""

import re

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'(?:href="|url\()#([^")]+)')
# Letters are outlines in units of 1/64 of a font's, which transform brings to size.
_LETTER = re.compile(r' d="([^"]*)" transform="scale\(0\.015625\)"')
_COARSE = "scale(0.125)"
_MOVED = re.compile(r'(<use href="[^"]*") transform="translate\(([\d.-]+) ([\d.-]+)\)"/>')
# A tick is a line: what it points to says its colour, and it has nothing to fill.
_TICK = re.compile(r' style="fill:(#\w+);stroke:\1;stroke-width:0\.8"/>')
_USES = re.compile(r'(?:<use [^>]* style="([^"]*)"/>)(?:<use [^>]* style="\1"/>)+')


def shrunk(svg: str) -> str:
    """The same picture: matplotlib's SVG with what it repeats taken out."""
    svg = svg.replace("xlink:href", "href")
    svg = svg.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = _LETTER.sub(lambda path: f' d="{_letter(path[1])}" transform="{_COARSE}"', svg)
    svg = re.sub(r'(?<= d=")[^"]*', lambda path: _tight(path[0]), svg)
    svg = re.sub(r'(?<= [xy]=")[^"]*|(?<=translate\()[^)]*', lambda at: _rounded(at[0]), svg)
    svg = re.sub(r'(?<=style=")[^"]*', lambda style: re.sub(r"([:;]) ", r"\1", style[0]), svg)
    svg = _MOVED.sub(lambda use: f'{use[1]} x="{use[2]}" y="{use[3]}"/>', svg).replace(' y="0"', "")
    svg = _USES.sub(_hoisted, _TICK.sub("/>", svg))
    return _ungrouped(_named(svg))


def _letter(path: str) -> str:
    """An outline to an eighth of its units, which is finer than print, each point from the last."""
    start = at = (0, 0)
    told = ""
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        ends = [round(float(n) / 8) for n in numbers.split()]
        points = list(zip(ends[::2], ends[1::2], strict=True))
        told += command.lower() + " ".join(f"{x - at[0]} {y - at[1]}" for x, y in points)
        if command == "M":
            start = points[-1]
        # Closing goes back to where the outline began.
        at = points[-1] if points else start
    return told


def _tight(path: str) -> str:
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", path).replace(" -", "-")


def _rounded(numbers: str) -> str:
    return _NUMBER.sub(lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), numbers)


def _hoisted(uses: re.Match[str]) -> str:
    """Marks that look alike say so once, around them."""
    style = f' style="{uses[1]}"'
    return f"<g{style}>{uses[0].replace(style, '')}</g>"


def _named(svg: str) -> str:
    """Ids that nothing refers to are left out, the others numbered as they come."""
    used = set(_USED.findall(svg))
    names: dict[str, str] = {}
    for name in _ID.findall(svg):
        if name in used:
            names.setdefault(name, f"i{len(names)}")
    svg = _ID.sub(lambda id: f' id="{names[id[1]]}"' if id[1] in names else "", svg)
    return _USED.sub(lambda use: use[0].replace(use[1], names.get(use[1], use[1])), svg)


def _ungrouped(svg: str) -> str:
    """Groups that say nothing are opened."""
    kept: list[bool] = []

    def tag(found: re.Match[str]) -> str:
        if found[0] == "</g>":
            return "</g>" if kept.pop() else ""
        kept.append(found[0] != "<g>")
        return found[0] if kept[-1] else ""

    return re.sub(r"<g(?: [^>]*[^/])?>|</g>", tag, svg.replace("<g/>", ""))
