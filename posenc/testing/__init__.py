"""The public check suite: claims that every encoding must hold, also yours.

from posenc.testing import check_encoding, parametrize_with_checks

check_encoding(MyEncoding(dim=64))

@parametrize_with_checks([MyEncoding(dim=64)])
def test_my_encoding(encoding, check):
    check(encoding)
"""

from posenc.testing.agreement import Agreement as Agreement
from posenc.testing.agreement import Case as Case
from posenc.testing.agreement import Peer as Peer
from posenc.testing.agreement import peer as peer
from posenc.testing.conformance import all_peers as all_peers
from posenc.testing.conformance import peers_in as peers_in
from posenc.testing.conformance import report_of as report_of
from posenc.testing.conformance import run_peer as run_peer
from posenc.testing.conformance import versions as versions
from posenc.testing.suite import Result as Result
from posenc.testing.suite import all_checks as all_checks
from posenc.testing.suite import check_encoding as check_encoding
from posenc.testing.suite import claim_of as claim_of
from posenc.testing.suite import parametrize_with_checks as parametrize_with_checks
from posenc.testing.suite import run_check as run_check
from posenc.testing.suite import run_checks as run_checks
