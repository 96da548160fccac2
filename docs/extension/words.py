"""The few words that directives add to a page, in its language."""

from sphinx.config import Config

WORDS = {
    "en": {"answer": "Answer", "panel": "Try it in the explorer"},
    "zh": {"answer": "答案", "panel": "在探索页中动手试一试"},
}


def language(config: Config) -> str:
    """ "en" or "zh"."""
    return config.language.partition("_")[0]


def word(config: Config, key: str) -> str:
    return WORDS[language(config)][key]
