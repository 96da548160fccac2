"""The Chinese letters that figures need, out of Noto Sans CJK (Debian: fonts-noto-cjk).

    python tools/font.py /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc

Writes posenc/analysis/plot/fonts/posenc-han.otf, which holds the letters of labels.py and of the
figures of lessons and claims and nothing else, under a name of its own. Needs fonttools, which
comes with matplotlib.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection, TTFont

from posenc.analysis.plot.fonts import FILE, NAME

ROOT = Path(__file__).parent.parent
SOURCES = [
    ROOT / "posenc" / "analysis" / "plot" / "labels.py",
    *(ROOT / "docs" / "figures").glob("*.py"),
    ROOT / "posenc" / "lab" / "heat_map.py",
    ROOT / "posenc" / "lab" / "words" / "metrics.py",
    ROOT / "tools" / "evidence_figures.py",
]
FACE = "Noto Sans CJK SC"


def letters() -> set[str]:
    """Everything beyond Latin that figures write."""
    text = "".join(path.read_text("utf-8") for path in SOURCES)
    return {letter for letter in text if ord(letter) >= 0x2E80}


def main(source: Path) -> None:
    faces = TTCollection(source).fonts if source.suffix == ".ttc" else [TTFont(source)]
    (face,) = (face for face in faces if face["name"].getDebugName(1) == FACE)
    options = subset.Options()
    options.hinting = False
    options.desubroutinize = True
    options.layout_features = []
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.notdef_outline = True
    options.recalc_timestamp = False
    cut = subset.Subsetter(options)
    cut.populate(unicodes=map(ord, letters()))
    cut.subset(face)
    plain = NAME.replace(" ", "")
    for number, text in {1: NAME, 3: plain, 4: NAME, 6: plain}.items():
        face["name"].setName(text, number, 3, 1, 0x409)
    top = face["CFF "].cff
    top.fontNames = [plain]
    top.topDictIndex[0].FamilyName, top.topDictIndex[0].FullName = NAME, NAME
    face.save(FILE)
    print(f"{FILE.relative_to(ROOT)}: {len(letters())} letters, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
