"""The commands of `posenc`: each is one call into the library, and how its answer is shown."""

# Help lists the commands in the order of these imports.
from posenc.commands import bench, catalogue, check, compare, convert, explore, show  # noqa: F401
from posenc.commands.app import app as app
