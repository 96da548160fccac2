"""What a report on reading further says, in English and in Chinese."""

from posenc.extend.words.page import PAGE
from posenc.extend.words.sentences import SENTENCES
from posenc.report.words import SHARED
from posenc.words import Texts

TEXTS: Texts = {**SHARED, **SENTENCES, **PAGE}
