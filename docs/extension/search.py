"""Search of Chinese pages, which write no spaces between words.

Text and query are both cut into single characters and neighbouring pairs of them, so that a query
of any length finds the pages that hold all of its pairs. A dictionary would cut the query of a
reader, who has none in the browser, in other places than the text.
"""

import re

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
RUNS = re.compile(rf"[{HAN}]+|[^\W{HAN}]+")

SPLIT_QUERY = f"""
function splitQuery(query) {{
  const runs = query.match(/[{HAN}]+|[\\p{{Letter}}\\p{{Number}}_]+/gu) || [];
  return runs.flatMap((run) => {{
    if (!/^[{HAN}]/.test(run)) return run.match(/[^{HAN}]+|[{HAN}]+/g);
    if (run.length < 2) return [run];
    return Array.from({{length: run.length - 1}}, (_, at) => run.slice(at, at + 2));
  }});
}}
"""


class SearchChinese(SearchEnglish):
    """English words as in English pages, Chinese by characters and pairs."""

    lang = "zh"
    # Sphinx calls the stemmer in the browser by this name.
    language_name = "English"
    js_splitter_code = SPLIT_QUERY

    def split(self, input: str) -> list[str]:
        return [word for run in RUNS.findall(input) for word in words(run)]

    def word_filter(self, word: str) -> bool:
        return chinese(word) or super().word_filter(word)


def words(run: str) -> list[str]:
    if not chinese(run):
        return [run]
    return list(run) + [run[at : at + 2] for at in range(len(run) - 1)]


def chinese(word: str) -> bool:
    return bool(word) and re.match(f"[{HAN}]", word) is not None


def setup(app: Sphinx) -> None:
    app.add_search_language(SearchChinese)
