"""Every encoding agrees with its paper and with other people's code, forward and backward."""

import pytest

from posenc.testing import Peer, all_peers, run_peer


@pytest.mark.parametrize(
    "peer", all_peers(package="tests.peers"), ids=lambda peer: f"{peer.encoding}-{peer.what}"
)
def test_agreement(peer: Peer) -> None:
    agreement = run_peer(peer)
    assert agreement.status == "agrees", agreement
    assert agreement.cases
