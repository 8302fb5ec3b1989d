"""Settings of a device change when all that claim any claim the same."""

from __future__ import annotations

from deployments.runtime.claims import Claims
from deployments.runtime.settings import DeviceSettings

STATED = DeviceSettings(mode="slo")
FIFO = DeviceSettings(mode="fifo")
BNST = DeviceSettings(mode="bnst")


def test_what_is_stated_is_in_force_until_somebody_claims_otherwise() -> None:
    claims = Claims(STATED)
    assert (claims.in_force, claims.conflict) == (STATED, "")
    claims.claim("a", None)
    assert claims.in_force == STATED
    claims.claim("a", FIFO)
    assert claims.in_force == FIFO


def test_claims_that_disagree_change_nothing_and_are_told() -> None:
    claims = Claims(STATED)
    claims.claim("a", FIFO)
    claims.claim("b", BNST)
    assert claims.in_force == FIFO
    assert claims.conflict == "a and b disagree: mode: 'fifo' here, 'bnst' there"
    claims.claim("a", BNST)
    assert (claims.in_force, claims.conflict) == (BNST, "")


def test_what_is_stated_holds_again_when_the_last_claim_is_withdrawn_but_not_when_its_replica_dies() -> None:
    claims = Claims(STATED)
    claims.claim("a", FIFO)
    claims.forget("a")
    assert claims.in_force == FIFO
    claims.claim("a", FIFO)
    claims.claim("b", FIFO)
    claims.claim("a", None)
    assert claims.in_force == FIFO
    claims.claim("b", None)
    assert claims.in_force == STATED
