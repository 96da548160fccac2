"""The memory that a computation asks for, kernels of ours included."""

from collections.abc import Callable

from torch.profiler import profile


def largest_allocation(compute: Callable[[], object]) -> int:
    """Bytes of the largest tensor that is made on the CPU."""
    with profile(profile_memory=True) as record:
        compute()
    assert record.profiler is not None
    events = record.profiler.kineto_results.events()
    return max(event.nbytes() for event in events if event.name() == "[memory]")
