"""The commands of `posenc`: each is one call into the library, and how its answer is shown."""

from posenc.commands.app import app as app
