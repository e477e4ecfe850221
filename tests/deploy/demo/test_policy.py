"""Approval and reasons are on unless somebody turns them off; a demonstration does."""

from __future__ import annotations

from bus.domain.policy import NO_POLICY, PolicySettings
from deploy.demo.cli import NO_POLICY_CHANGES
from deploy.settings.composed import load, with_changes


def test_a_site_asks_for_approval_and_reasons_unless_it_says_otherwise() -> None:
    assert load(None, [], {}).policy == PolicySettings()
    assert (PolicySettings().requires_approval, PolicySettings().requires_reason) == (True, True)


def test_a_demonstration_and_all_its_processes_ask_for_neither() -> None:
    """What it runs is started with the same words."""
    settings = with_changes(load(None, [], {}), NO_POLICY_CHANGES)
    assert settings.policy == NO_POLICY
    assert load(None, settings.arguments[1::2], {}).policy == NO_POLICY
