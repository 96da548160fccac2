"""What a comparison says, in English and in Chinese."""

from posenc.lab.texts.page import PAGE
from posenc.lab.texts.record import RECORD
from posenc.lab.texts.sentences import SENTENCES
from posenc.report.texts import SHARED
from posenc.words import Texts

TEXTS: Texts = {**SHARED, **SENTENCES, **PAGE, **RECORD}
