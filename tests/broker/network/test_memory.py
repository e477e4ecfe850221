"""What responses may hold: shared out, never waited for."""

from __future__ import annotations

from broker.network.memory import BrokerMemory, MemoryAccount, ResponseMemory

MIB = 1024 * 1024


def test_what_is_left_is_shared_out_in_halves() -> None:
    """A few clients that do not read leave memory for all others; at the minimum a read has one
    batch."""
    memory, granted = ResponseMemory(64 * MIB), []
    for _ in range(100):
        granted.append(memory.limit_read(55 * MIB))
        memory.add(granted[-1])
    assert granted[:3] == [32 * MIB, 16 * MIB, 8 * MIB]
    assert granted[-1] == 0
    assert memory.used_bytes < 64 * MIB
    assert memory.limit_read(1000) == 0


def test_a_batch_beyond_the_bound_makes_it_short_until_it_is_given_back() -> None:
    """KIP-74 lets every fetch pass the bound by one batch."""
    memory = ResponseMemory(MIB)
    holder = MemoryAccount(memory)
    assert memory.limit_read(100) == 100
    holder.charge(2 * MIB)
    assert memory.is_short
    assert memory.limit_read(100) == 0
    holder.charge(0)
    assert not memory.is_short
    assert memory.used_bytes == 0


def test_a_follower_is_not_cut_for_what_clients_hold() -> None:
    """Nor do clients pay for what it holds."""
    clients, brokers = ResponseMemory(MIB), BrokerMemory()
    follower = MemoryAccount(clients)
    MemoryAccount(clients).charge(2 * MIB)
    brokers.assign(2, follower, 10 * MIB)
    assert follower.memory.limit_read(10 * MIB) == 10 * MIB
    follower.charge(4 * MIB)
    assert follower.memory.limit_read(10 * MIB) == 6 * MIB
    assert clients.used_bytes == 2 * MIB


def test_one_connection_at_a_time_has_a_brokers_memory() -> None:
    """Any client can claim to be a broker: the previous connection counts as a client again, with
    all its memory, and so does a closed one."""
    clients, brokers = ResponseMemory(64 * MIB), BrokerMemory()
    first, second = MemoryAccount(clients), MemoryAccount(clients)
    brokers.assign(2, first, 10 * MIB)
    first.charge(3 * MIB)
    brokers.assign(2, second, 10 * MIB)
    assert clients.used_bytes == 3 * MIB
    assert second.memory.used_bytes == 0
    second.charge(MIB)
    second.charge(0)
    brokers.release(second)
    brokers.assign(2, first, 10 * MIB)
    assert (clients.used_bytes, first.memory.used_bytes) == (0, 3 * MIB)
