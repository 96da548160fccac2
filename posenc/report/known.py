"""What a report's JSON holds in English, on a page in another language."""

from collections.abc import Mapping

from posenc.words import Words


def known(sentence: str, chinese: Mapping[str, str], say: Words) -> str:
    """`sentence` with the phrases that are known in the page's language; the rest stays."""
    for phrase, translated in chinese.items() if say.language == "zh" else ():
        sentence = sentence.replace(phrase, translated)
    return sentence
