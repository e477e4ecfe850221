"""When a dead process is started again."""

import random

from deploy.supervisor.restart import RestartPolicy


def test_the_wait_doubles_with_every_death_and_stops_growing_at_its_limit():
    """0.5, 1, 2, 4, 8, 10, 10 seconds."""
    policy, deaths, waits = RestartPolicy(), [], []
    for second in range(7):
        deaths.append(float(second))
        waits.append(policy.delay_s(deaths, float(second)))
    assert waits == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_process_that_lived_past_the_window_starts_again_with_the_first_wait():
    """Old deaths are forgotten."""
    policy = RestartPolicy(window_s=60)
    assert policy.delay_s([1, 2, 3, 4, 100], 100) == policy.first_delay_s


def test_one_death_too_many_within_the_window_is_the_end():
    """A role that cannot run is not restarted for ever."""
    policy = RestartPolicy(deaths_allowed=3)
    assert policy.delay_s([1, 2, 3], 3) is not None
    assert policy.delay_s([1, 2, 3, 4], 4) is None


def test_whatever_the_deaths_the_wait_is_within_its_bounds():
    """Property: None or between the first and the longest delay."""
    seed = random.randrange(1 << 32)
    dice, policy = random.Random(seed), RestartPolicy()
    for _ in range(500):
        deaths = sorted(dice.uniform(0, 300) for _ in range(dice.randrange(1, 30)))
        delay = policy.delay_s(deaths, deaths[-1])
        recent = policy.recent(deaths, deaths[-1])
        assert (delay is None) == (recent > policy.deaths_allowed), f"seed {seed}"
        if delay is not None:
            assert policy.first_delay_s <= delay <= policy.longest_delay_s, f"seed {seed}"
