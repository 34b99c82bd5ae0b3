"""webmill as somebody has it who installed the wheel: an environment in which this repository is nowhere."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=240)
    return next(folder.glob("*.whl"))


def install(wheel: Path, folder: Path) -> Path:
    """The programs of a new environment with this wheel.

    What webmill needs is taken from the environment of the tests, by its folder: the `.pth` files in there, one of
    which leads to this repository, do not count for others.
    """
    programs = put_into(folder, wheel, "--offline", "--no-index", "--no-deps")
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


def install_with_dependencies(wheel: Path, folder: Path) -> Path:
    """As `pip install webmill` does it, without any extra; CalledProcessError where packages cannot be had."""
    return put_into(folder, wheel, "--constraint", str(ROOT / "requirements" / "run.txt"))


def put_into(folder: Path, wheel: Path, *flags: str) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", *flags, "--python", str(python), str(wheel)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    return python.parent
