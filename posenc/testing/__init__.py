"""The public check suite: claims that every encoding must hold, also yours.

from posenc.testing import check_encoding, parametrize_with_checks

check_encoding(MyEncoding(dim=64))

@parametrize_with_checks([MyEncoding(dim=64)])
def test_my_encoding(encoding, check):
    check(encoding)
"""

from posenc.testing.suite import Result as Result
from posenc.testing.suite import all_checks as all_checks
from posenc.testing.suite import check_encoding as check_encoding
from posenc.testing.suite import claim_of as claim_of
from posenc.testing.suite import parametrize_with_checks as parametrize_with_checks
from posenc.testing.suite import run_check as run_check
from posenc.testing.suite import run_checks as run_checks

__all__ = [
    "Result",
    "all_checks",
    "check_encoding",
    "claim_of",
    "parametrize_with_checks",
    "run_check",
    "run_checks",
]
