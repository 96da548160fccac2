from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COPYING, RATES, copying
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "fitting": copying("t5(buckets=8, max_distance=10)", size),
        "default": copying("t5(buckets=32, max_distance=128)", size),
    }


CLAIM = Claim(
    name="t5_buckets_must_fit",
    says=(
        "T5 reads no farther than in training where each trained distance has a bucket of its own; coarser buckets that fit the training length do.",
        "T5 若给训练过的每个距离各设一个桶，就读不到训练长度以外；桶较粗、合乎训练长度，就可以。",
    ),
    source="posenc, from the formula of Raffel et al. 2020 (T5), arXiv:1910.10683, section 2.1: 32 buckets up to a distance of 128",
    differs=(
        COPYING[0] + " Copying n letters needs a distance of n + 1.",
        COPYING[1] + "复制 n 个字母要用 n + 1 的距离。",
    ),
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("fitting", times=1.125), Cell("default", times=1.125), above=0.05),),
    seeds=10,
    rates=RATES,
    learned=0.5,
)
