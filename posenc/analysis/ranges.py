"""Whole numbers in words."""

from collections.abc import Sequence


def ranges(numbers: Sequence[int]) -> list[str]:
    """Numbers in order as ranges: [0, 1, 2, 5] as "0 to 2", "5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
