"""What a comparison says, in English and in Chinese."""

from posenc.lab.words.page import PAGE
from posenc.lab.words.record import RECORD
from posenc.lab.words.sentences import SENTENCES
from posenc.lab.words.sweep import SWEEP
from posenc.report.words import SHARED
from posenc.words import Texts

TEXTS: Texts = {**SHARED, **SENTENCES, **PAGE, **RECORD, **SWEEP}
