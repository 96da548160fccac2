"""Speed and memory against peers and against no position at all, as ratios within one run.

`case` says what a case is; `rotary`, `attention`, `decoding`, `training`, `building`, `converting`
and `startup` declare them; `cases` lists them all. `measure` runs one in a fresh process
(`worker`), `run` runs many and writes bench.json, `verdict` holds them to the figures to reach, and
`page` shows them. `gpu` stands apart: Triton's kernels on an NVIDIA GPU, by its own clock.
"""
