"""Compile requirements/*.txt from pyproject.toml: names, versions and hashes, no index addresses.

Run by `make lock`. `build` and `dev` are constrained by `run`: they share one environment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
EXTRAS = (
    "languages",
    "text",
    "pdf",
    "fast",
    "parquet",
    "redis",
    "rabbitmq",
    "s3",
    "sqs",
    "ray",
    "postgres",
    "tokens",
    "fasttext",
    "langid",
    "sign",
    "alerts",
    "mcp",
    "meaning",
)
JUDGES = ("pywb>=2.10", "cdxj-indexer>=1.5", "setuptools<81", 'legacy-cgi; python_version >= "3.13"')
RIVALS = ("scrapy>=2.13", "crawlee[parsel,playwright]>=1.0", "warcio>=1.7")
WATCHERS = ("changedetection.io>=0.60",)
RUN = HERE / "run.txt"


def compile_set(name: str, *sources: str, stdin: str | None = None, folder: Path = HERE) -> None:
    out = folder / f"{name}.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    if name in ("build", "dev"):
        command += ["--constraint", str(RUN)]
    subprocess.run([*command, "--output-file", str(out), *sources], cwd=ROOT, check=True, input=stdin, text=True)
    print(f"compiled {out.relative_to(ROOT)}")


def main() -> None:
    compile_set("uv", "-", stdin="uv\n")
    compile_set("run", "pyproject.toml", "--extra=parquet")
    compile_set("build", "-", stdin="hatchling>=1.27\neditables\n")
    extras = [f"--extra={extra}" for extra in EXTRAS]
    # Judges of our formats that cannot share our environment: pywb pins a redis client of 2016 and needs pkg_resources.
    compile_set("judges", "-", stdin="\n".join(JUDGES) + "\n")
    # An AWS on this machine, which runs our handlers in its own environment and wants other versions of boto3.
    compile_set("ministack", "pyproject.toml", "-", "--extra=s3", "--extra=sqs", stdin="ministack==1.5.33\n")
    # Whole crawlers to race against, with whatever they bring along.
    compile_set("rivals", "-", stdin="\n".join(RIVALS) + "\n")
    # A watcher of pages to race against: a web application with a browser's driver and three hundred megabytes.
    compile_set("watchers", "-", stdin="\n".join(WATCHERS) + "\n", folder=ROOT / "benchmarks" / "rivals")
    # Coverage-guided fuzzing: a wheel of libFuzzer, for Linux and few versions of Python.
    compile_set("fuzz", "pyproject.toml", "-", stdin="atheris==3.0.0\nhatchling>=1.27\neditables\n")
    # Spark and Dask run our mapper in an environment of their own: half a gigabyte, for their examples alone.
    spark = "pyspark>=4\ndask>=2025\nhatchling>=1.27\neditables\n"
    compile_set("spark", "pyproject.toml", "-", "--extra=parquet", stdin=spark)
    # The site of the docs; nothing of ours runs beside it.
    compile_set("docs", "-", stdin="zensical>=0.0.73\n")
    compile_set("dev", "pyproject.toml", "--group=dev", *extras)


if __name__ == "__main__":
    main()
