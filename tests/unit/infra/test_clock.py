"""Time that nobody can set."""

from __future__ import annotations

import time

from webmill.infra.clock import Anchor, SteadyClock


class Machine:
    """Its two clocks."""

    def __init__(self, *, wall: float, since_boot: float, boot: str = "one") -> None:
        self.wall, self.since_boot, self.boot = wall, since_boot, boot

    def clock(self, anchor: Anchor | None = None) -> SteadyClock:
        return SteadyClock(anchor, wall=lambda: self.wall, since_boot=lambda: self.since_boot, boot=self.boot)


def test_it_tells_the_wall_clocks_time_at_first() -> None:
    machine = Machine(wall=1000.0, since_boot=5.0)
    assert machine.clock()() == 1000.0


def test_a_wall_clock_that_jumps_changes_nothing() -> None:
    machine = Machine(wall=1000.0, since_boot=5.0)
    clock = machine.clock()
    machine.wall += 86400
    machine.since_boot += 10
    assert clock() == 1010.0


def test_a_jump_between_two_runs_on_one_boot_changes_nothing() -> None:
    for jump in (-86400.0, 86400.0):
        machine = Machine(wall=1000.0, since_boot=5.0)
        anchor = machine.clock().anchor()
        machine.wall += jump
        machine.since_boot += 60
        assert machine.clock(anchor)() == 1060.0


def test_after_a_reboot_the_wall_clock_counts() -> None:
    anchor = Machine(wall=1000.0, since_boot=500.0).clock().anchor()
    assert Machine(wall=1300.0, since_boot=20.0, boot="two").clock(anchor)() == 1300.0


def test_after_a_reboot_time_does_not_go_backwards() -> None:
    anchor = Machine(wall=1000.0, since_boot=500.0).clock().anchor()
    assert Machine(wall=10.0, since_boot=20.0, boot="two").clock(anchor)() == 1000.0


def test_where_boots_cannot_be_told_apart_the_wall_clock_counts() -> None:
    anchor = Machine(wall=1000.0, since_boot=5.0, boot="").clock().anchor()
    assert Machine(wall=2000.0, since_boot=6.0, boot="").clock(anchor)() == 2000.0


def test_the_machines_own_clocks_are_close_to_the_truth() -> None:
    before = time.time()
    assert before - 1 <= SteadyClock()() <= time.time() + 1


def test_it_catches_up_with_others_and_never_goes_back() -> None:
    machine = Machine(wall=1000.0, since_boot=500.0)
    clock = machine.clock()
    clock.catch_up(1010.0)
    assert clock() == 1010.0
    clock.catch_up(900.0)
    machine.since_boot += 5.0
    assert clock() == 1015.0
    assert clock.anchor().now == 1015.0
