"""posenc under models of transformers: `attach` puts it there, `detach` takes it away."""

from posenc.models.attach.attaching import attach as attach
from posenc.models.attach.attaching import detach as detach
from posenc.models.attach.attachment import Attachment as Attachment
from posenc.models.attach.registration import register as register
from posenc.models.attach.watch import watch as watch
