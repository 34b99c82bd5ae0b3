"""Play the simulations: one seed with its trace, many seeds, or planted bugs.

python -m tests.simulation --protocol queue --seed 17          the trace of one seed
python -m tests.simulation --seeds 10000                       all protocols; figures at the end
python -m tests.simulation --mutants                           how many seeds find each planted bug
python -m tests.simulation --protocol queue --seed 3 --mutant "an ack by an old token counts"
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.simulation import seams

if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set of names decides, too
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
seams.install()  # before anything of the product is imported

from tests.simulation import mutants, product  # noqa: E402
from tests.simulation.runner import PROTOCOLS, SHARES, Totals, format_totals, run_seed, run_seeds  # noqa: E402


def main() -> int:
    options = parse()
    product.install()
    if options.mutants:
        return hunt_mutants(options)
    if options.mutant:
        mutants.plant(options.mutant)
    if options.seed is not None:
        return replay(options.protocol or "queue", options.seed)
    return play_all(options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--protocol", choices=PROTOCOLS, help="Play this one. Default: all of them.")
    parser.add_argument("--seed", type=int, help="Play one seed, and print its trace.")
    parser.add_argument("--seeds", type=int, default=200, help="Play so many seeds, in all. Default: 200.")
    parser.add_argument("--first", type=int, default=0, help="The first seed. Default: 0.")
    parser.add_argument("--mutant", choices=mutants.MUTANTS, help="Plant this bug before.")
    parser.add_argument("--mutants", action="store_true", help="Plant each bug, and count seeds until it is found.")
    parser.add_argument("--recorded", action="store_true", help="With --mutants: begin with seeds that found them.")
    parser.add_argument("--json", action="store_true", help="Print the result as JSON.")
    return parser.parse_args()


def replay(protocol: str, seed: int) -> int:
    result = run_seed(protocol, seed, keep_trace=True)
    print(*result.trace, sep="\n")
    print(f"{protocol} {seed}: {result.failure or 'all promises held'}")
    print(f"trace {result.digest}, {result.events} events, {result.simulated:.0f} simulated seconds")
    return 1 if result.failure else 0


def play_all(options: argparse.Namespace) -> int:
    """Play many seeds. A failure is printed with what replays it."""
    everything: dict[str, Totals] = {}
    for protocol in [options.protocol] if options.protocol else PROTOCOLS:
        count = options.seeds if options.protocol else max(1, round(options.seeds * SHARES[protocol]))
        everything[protocol] = run_seeds(protocol, range(options.first, options.first + count))
    print(format_totals(everything, as_json=options.json))
    return 1 if any(totals.failures for totals in everything.values()) else 0


def hunt_mutants(options: argparse.Namespace) -> int:
    found = mutants.hunt_all(options.protocol, recorded=options.recorded)
    print(mutants.format_findings(found, as_json=options.json))
    return 1 if any(finding.seed is None for finding in found) else 0


if __name__ == "__main__":
    sys.exit(main())
