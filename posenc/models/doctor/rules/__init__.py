"""What may be wrong with a configuration, whoever runs it: one file for each."""

from posenc.models.doctor.finding import Rule
from posenc.models.doctor.rules.beyond_training import beyond_training
from posenc.models.doctor.rules.bfloat16_frequencies import bfloat16_frequencies
from posenc.models.doctor.rules.depends_on_length import depends_on_length
from posenc.models.doctor.rules.differs_by_layer import differs_by_layer
from posenc.models.doctor.rules.older_keys import older_keys
from posenc.models.doctor.rules.reach import reach
from posenc.models.doctor.rules.said_twice import said_twice
from posenc.models.doctor.rules.short_table import short_table
from posenc.models.doctor.rules.unread_keys import unread_keys

RULES: tuple[Rule, ...] = (
    unread_keys,
    said_twice,
    older_keys,
    reach,
    short_table,
    beyond_training,
    depends_on_length,
    differs_by_layer,
    bfloat16_frequencies,
)
