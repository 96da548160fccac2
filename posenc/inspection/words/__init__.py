"""What a look into a model says, in English and in Chinese."""

from posenc.inspection.words.page import PAGE
from posenc.inspection.words.sentences import SENTENCES
from posenc.report.words import SHARED
from posenc.words import Texts

TEXTS: Texts = {**SHARED, **SENTENCES, **PAGE}
