"""What a normal form asks of a backend, each with the sentence of a backend that cannot do it."""

from enum import Enum


class Feature(Enum):
    """One thing that a backend can do or not; its value is why a backend refuses."""

    TRANSFORM = "Transform multiplies q and k by matrices"
    ROTATION = "Rotate turns q and k by angles"
    GROWING_ROTATION = "factors that grow with position leave the range of float32"
    ZONES = "Zones rotate queries and keys twice"
    CHUNK_ZONES = "ChunkZones rotate a query once for each zone of chunks"
    REFLECTIONS = "Householder multiplies keys by a product over the tokens after them"
    POLAR = "Polar makes queries and keys twice as wide as values"
    TABLE = "a DistanceTable adds to scores by distance"
    SLOPES = "a Slope adds to scores by distance"
    INSIDE_QUERY_SCALE = (
        "a bias inside a scale that differs by query is no function of the distance"
    )
    QUERY_SCALE = "a Scale differs by query"
    NETWORK = "a Network adds a function of the distance as a share of what its query tells"
    GRID = "a GridTable adds to scores by differences of rows and columns"
    OFFSETS = "an Offset adds to scores a number per query and one per key"
    VECTORS = "GatherTable reads more than a score and its place"
    VECTORS_BESIDE_ROTATION = "GatherTable reads q and k as given, beside a Rotate that turns them"
    VALUE_VECTORS = "ValueTable needs the attention weights"
    VALUE_ROTATION = "RotateValues turns values, and their sums back"
    VALUE_VECTORS_BESIDE_ROTATION = (
        "ValueTable adds vectors that are not turned back, beside RotateValues"
    )
    COUNTS = "CountTable needs the scores of all keys of a query"
    SINK = "a SinkLogit stands in the softmax beside the scores of the keys"
    DENSE = "DenseBias is no function of the distance alone"
    MASK = "a Mask hides pairs by their order"
    OWN_VECTORS = "GatherTable reads vectors of its own in place of q"
    # Of positions: how a backend may find the distance and the order of a pair.
    PLACED_DISTANCES = "distances of explicit positions do not follow the order of the tokens"
    FRACTIONAL_DISTANCES = "distances must be whole numbers"
    UNORDERED_QUERIES = "more queries than keys have no order"

    # Members are themselves only; Enum's own hash is one of their names, and slow.
    __hash__ = object.__hash__
