"""The process behind `tests.faults.Stage`: a fork for each line of input, and its exit code as a line of output."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from typing import Any


def main(library: str, module: str) -> None:
    killer, program = ctypes.CDLL(library), importlib.import_module(module)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        order = json.loads(line)
        code = forked(killer, program, order) if order["fork"] else perform(killer, program, order)
        print(code, file=answers, flush=True)


def forked(killer: Any, program: Any, order: dict[str, Any]) -> int:
    child = os.fork()
    if not child:
        os._exit(perform(killer, program, order))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def perform(killer: Any, program: Any, order: dict[str, Any]) -> int:
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.argv = [program.__name__, *order["argv"]]
    under, log = order["under"].encode(), order["log"].encode()  # the library keeps pointers to these until it is done
    killer.killer_arm(ctypes.c_uint64(order["at"]), under, log)
    try:
        program.main()
        code: object = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    killer.killer_arm(ctypes.c_uint64(0), None, None)
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    main(*sys.argv[1:])
