"""What goes wrong in a simulation: kills, pauses, power cuts and clocks that are set, when the seed says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.simulation import seams
from tests.simulation.world import Machine, Process, World


class Service:
    """A process that is started again when it was killed, or gave up with an error of `gives_up`, until it has ended
    by itself."""

    def __init__(
        self,
        world: World,
        machine: Machine,
        name: str,
        main: Callable[[], Any],
        *,
        gives_up: tuple[type[Exception], ...] = (),
    ) -> None:
        self.world, self.machine, self.name, self._main = world, machine, name, main
        self._gives_up = gives_up
        self.is_done = False
        self.process: Process | None = None
        self.start()

    def start(self) -> None:
        if not self.is_done and not (self.process and self.process.is_alive):
            self.process = self.world.start(self.machine, self.name, self._run)

    def _run(self) -> None:
        try:
            self._main()
        except self._gives_up as error:
            self.world.counts["ended by errors"] += 1
            self.world.note(self.name, f"ends: {error}")
            self.restart_later()
        else:
            self.is_done = True

    def restart_later(self) -> None:
        self.world.after(self.world.rng.uniform(0.05, 20.0), self.start)


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """Mean seconds between two faults of a kind; 0: never."""

    kills: float = 0.0
    stalls: float = 0.0
    cuts: float = 0.0
    jumps: float = 0.0
    longest_stall: float = 60.0
    may_jump_forward: bool = True


class FaultInjector:
    """Disturbs services until it is told to stop."""

    def __init__(self, world: World, services: Sequence[Service], rates: FaultRates) -> None:
        self.world, self.services, self.rates = world, services, rates
        self.is_over = False
        self.on_power_cut: Callable[[Machine], None] = lambda _: None
        kinds = {
            self._kill: rates.kills,
            self._stall: rates.stalls,
            self._cut_power: rates.cuts,
            self._set_clock: rates.jumps,
        }
        for fault, mean in kinds.items():
            if mean:
                self._plan(fault, mean)

    def stop(self) -> None:
        """Let all services come back, and disturb them no more."""
        self.is_over = True
        for service in self.services:
            if service.process:
                service.process.stalled_until = 0.0
            service.start()

    def _plan(self, fault: Callable[[], None], mean: float) -> None:
        def happen() -> None:
            if not self.is_over:
                fault()
                self._plan(fault, mean)

        self.world.after(self.world.rng.expovariate(1 / mean), happen)

    def _living(self) -> list[Service]:
        return [service for service in self.services if service.process and service.process.is_alive]

    def _kill(self) -> None:
        if living := self._living():
            service = self.world.rng.choice(living)
            assert service.process
            service.process.kill()
            service.restart_later()

    def _stall(self) -> None:
        if living := self._living():
            process = self.world.rng.choice(living).process
            assert process
            process.stall(self.world.rng.uniform(0.5, self.rates.longest_stall))
            self.world.counts["stalls"] += 1

    def _cut_power(self) -> None:
        machine = self.world.rng.choice(sorted({service.machine.name for service in self.services}))
        here = [service for service in self.services if service.machine.name == machine]
        here[0].machine.cut_power()
        self.on_power_cut(here[0].machine)
        for service in here:
            service.restart_later()

    def _set_clock(self) -> None:
        machine = self.world.rng.choice(self.services).machine
        steps = (-86400.0, -3600.0, -30.0, *((30.0, 3600.0, 86400.0) if self.rates.may_jump_forward else ()))
        step = self.world.rng.choice(steps)
        machine.ahead += step
        self.world.counts["clock jumps"] += 1
        self.world.note(machine.name, f"clock set by {step:+.0f} s")


def pause(world: World, mean: float) -> None:
    """Let the process that runs wait for a while."""
    assert seams.current
    seams.current.sleep(world.rng.uniform(0.0, 2 * mean))
