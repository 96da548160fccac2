"""Checks of the public suite that take most of its time: our tests ask them of fewer encodings."""

# They compare graphs with eager code, and take as long as all other checks together.
TRACES = frozenset({"check_compiles", "check_exports"})
# What these ask of backends hangs on kinds of terms, not on their numbers, and takes as long as
# most others together. check_scales and check_negative_orders hold every example to the reference
# in every backend, and tests/backends/test_native_precision.py to float64 in low precision.
LONG = frozenset(
    {
        "check_backends",
        "check_gradients_in_low_precision",
        "check_hidden_tokens",
        "check_masks_in_backends",
        "check_other_rows",
        "check_wide_windows",
    }
)
