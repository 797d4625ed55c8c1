# The two commands to know: `make demo` and `make test`. Both set up what they need; neither needs Go.
PYTHON ?= python3
# Where this is set each of hundreds of processes would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
REAL := $(BIN)/python -m pytest -o addopts="-ra --import-mode=importlib"
LOCK := $(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras --allow-unsafe
# What takes real time, or covers what the tests of the parts cover: not in `make test`, and coverage is measured without it.
# Of tests/page the few quick ones in test_smoke.py are in `make test`; without a Chromium they are skipped.
# The longest come first, so that the others run beside them: they mostly wait for their stories.
LONGEST := tests/page/test_demo.py tests/demo/test_docs_commands.py tests/page/test_browser.py tests/demo/test_program.py
REAL_TIME := $(LONGEST) $(filter-out $(LONGEST),$(wildcard tests/demo/test_*.py)) tests/page/test_way.py tests/bench tests/service \
	tests/cli/test_program.py tests/contract
# Whole worlds on virtual time: minutes of CPU, and nothing that other work could disturb. What takes longest comes first.
WHOLE_WORLDS := tests/prober/test_montecarlo.py tests/prober/test_detection.py tests/scenarios
# Real sockets too, but the only tests of much of the program, and quick: `make check` has them, with coverage.
COVERED := tests/core/web/test_serving.py tests/cli/test_page.py tests/cli/test_portforward.py
# What measures the event loop, in CPU time of its own thread: two at a time, and nothing else beside them.
LOOP := tests/attack tests/api/test_scrapes.py
# What is measured in real time may fail because of what else the machine did: those that failed are measured once more,
# by themselves, and have to hold then.
AGAIN := --last-failed --last-failed-no-failures=none
LEFT_OUT := $(patsubst %,--ignore=%,$(REAL_TIME) $(COVERED) $(WHOLE_WORLDS) $(LOOP))
FAST := --numprocesses=auto --dist=worksteal $(LEFT_OUT)
# The tests that meet the changes of a mutation run: it forks, which the thread that schemathesis starts does not survive.
MUTATION := tests/core tests/prober tests/weeder tests/api tests/simulation $(LEFT_OUT) \
	--ignore=tests/api/test_contract_of_the_document.py
# The longest of them run without coverage, which makes Python two to three times as slow: documents and the chart, which
# cover nothing of the program, and whole stories, which cover what the tests of their parts cover.
UNTRACED := tests/chart tests/docs tests/image tests/page tests/api/test_audit.py tests/api/test_contract_of_the_document.py \
	tests/cli/test_exit_codes.py tests/cli/test_printing.py tests/core/overrides/test_interleavings.py tests/core/reporting/test_audit.py \
	tests/prober/test_budget.py tests/prober/test_carried_on.py tests/prober/test_explored.py tests/prober/test_isolation.py \
	tests/prober/test_kills.py tests/prober/test_pauses.py tests/prober/test_reachability.py tests/prober/test_releases.py \
	tests/prober/test_request_statuses.py tests/prober/test_stale_watches.py tests/prober/test_time_balance.py \
	tests/weeder/test_budgets.py tests/weeder/test_storm.py

KUBE_BINARIES := etcd kube-apiserver kube-controller-manager kubectl helm3 helm4 kubeconform kwok

.PHONY: demo test test-suites test-worlds test-real-time test-processes test-loop check lint covered test-page pictures kube-binaries test-kube opponent failover explore explore-long mutation lock \
	bench montecarlo clean fmt image image-root test-image sbom outdated licences
.DEFAULT_GOAL := test

# What pip says goes into a file; where it fails, its first line is the one that says why.
$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else None'
	@echo "installing the program and what it needs into $(VENV), once (half a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@{ $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt && \
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	} >$(VENV)/pip.log 2>&1 || { echo "pip: $$(head -n 1 $(VENV)/pip.log) (all that it says: $(VENV)/pip.log)" >&2; exit 1; }
	@touch $@

demo: $(STAMP)  ## the main job on the embedded simulated seed, with the API on localhost
	@$(BIN)/dwd demo

test: $(STAMP)  ## all tests on virtual time: some 10,000 in 4 minutes
	$(BIN)/python -m pytest -q $(FAST)

test-suites: test-worlds test-real-time  ## whole worlds, and what takes real time: whole processes, the demo, attacks; Python only, 15 minutes

# CI runs it beside suites that run again what failed in them: it leaves their list of that alone.
test-worlds: $(STAMP)
	$(BIN)/python -m pytest -q --numprocesses=2 --dist=worksteal -p no:cacheprovider -o timeout=900 $(WHOLE_WORLDS)

test-real-time: test-processes test-loop

test-processes: $(STAMP)
	$(BIN)/python -m pytest -q --numprocesses=4 --dist=loadfile --no-loadscope-reorder $(REAL_TIME) || $(BIN)/python -m pytest -q $(AGAIN) $(REAL_TIME)

test-loop: $(STAMP)
	$(BIN)/python -m pytest -q --numprocesses=2 --dist=worksteal $(LOOP) || $(BIN)/python -m pytest -q $(AGAIN) $(LOOP)

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint covered  ## format, lint, types, import contracts, coverage; with -j2 both at once

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

covered: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(FAST) $(UNTRACED:%=--ignore=%)
	$(BIN)/coverage run -m pytest -q --numprocesses=2 $(COVERED) || $(BIN)/coverage run -m pytest -q $(AGAIN) $(COVERED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=90
	$(BIN)/coverage report --fail-under=100 --include='app/prober/rules/*,app/weeder/rules.py'
	$(BIN)/python -m pytest -q $(FAST) $(UNTRACED)

test-page: $(STAMP)  ## the page in a real Chromium (Debian's package chromium; npm fetches axe-core, as its lock file pins it)
	$(BIN)/python -m pytest -q tests/page tests/api/test_page.py tests/api/test_page_plots.py

pictures: $(STAMP)  ## the screenshots in docs/pictures, from the demo; two minutes
	$(BIN)/python -m hack.pictures

kube-binaries:  ## builds what `make test-kube` needs, so that it finds it there (5 to 12 minutes, once)
	@hack/kube-assets $(KUBE_BINARIES)

# What uses promtool and prometheus (Debian's package prometheus) is skipped where they are not there.
test-kube: $(STAMP)  ## the suites on a real kube-apiserver and etcd, and the chart (KUBEBUILDER_ASSETS, or built by hack/kube-assets)
	assets="$${KUBEBUILDER_ASSETS:-$$(hack/kube-assets $(KUBE_BINARIES))}" && \
	KUBEBUILDER_ASSETS="$$assets" $(REAL) -m real --numprocesses=auto --dist=loadfile tests/contract && \
	KUBEBUILDER_ASSETS="$$assets" $(REAL) -m real --numprocesses=auto --dist=loadfile tests/chart && \
	{ KUBEBUILDER_ASSETS="$$assets" $(REAL) tests/e2e || KUBEBUILDER_ASSETS="$$assets" $(REAL) $(AGAIN) tests/e2e; }

image:  ## the image, by docker, podman, buildah or none of them (docs/image.md)
	hack/image/build

image-root:  ## only its root, in build/image/root; needs root on Debian 12
	hack/image/build root

test-image: $(STAMP) image-root  ## what is in the image, and whether it runs as Gardener starts it; as root on Debian 12
	DWD_IMAGE=build/image $(REAL) -m real tests/image

sbom: image-root  ## the bill of materials of the image
	mkdir -p dist
	cp build/image/root/usr/local/share/dependency-watchdog/sbom.cdx.json dist/

outdated: image-root  ## which Python packages of the image have a newer version
	build/image/tools/bin/pip list --outdated --path build/image/root/usr/local/lib/python3*/site-packages

licences: $(STAMP)  ## generates docs/licences.md
	$(BIN)/python -m hack.image.licences >docs/.licences.new
	mv docs/.licences.new docs/licences.md

opponent: $(STAMP)  ## 20 + 20 outages against the real kube-controller-manager, as a table (25 min; RUNS=2 for less)
	assets="$${KUBEBUILDER_ASSETS:-$$(hack/kube-assets etcd kube-apiserver kube-controller-manager)}" && \
	KUBEBUILDER_ASSETS="$$assets" $(BIN)/python -m tests.e2e.opponent_runs --runs $${RUNS:-20}

mutation: $(STAMP)  ## which of 9,000 small changes of the rules, of scaling, the weeder and core/kube no test notices; some hours, goes on where it was stopped (OPTIONS="--only 'app.weeder.*'")
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --upgrade --target build/mutation -r requirements/mutation.txt
	PYTHONPATH=build/mutation nice $(BIN)/python -m hack.mutation $(OPTIONS) -- $(MUTATION)

failover: $(STAMP)  ## two instances and what may happen to them in an outage: 20 runs each, as a table (9 h, goes on where it was stopped; RUNS=1: 30 min)
	assets="$${KUBEBUILDER_ASSETS:-$$(hack/kube-assets etcd kube-apiserver)}" && \
	KUBEBUILDER_ASSETS="$$assets" $(BIN)/python -m tests.e2e.failover_runs --runs $${RUNS:-20} --table

lock: $(STAMP)  ## renews the lock files from pyproject.toml
	$(LOCK) --output-file requirements/run.txt pyproject.toml
	$(LOCK) --extra dev --extra demo --constraint requirements/run.txt --output-file requirements/dev.txt pyproject.toml requirements/build.in
	$(LOCK) --output-file requirements/image.txt requirements/image.in
	$(LOCK) --output-file requirements/mutation.txt requirements/mutation.in

WORLDS := 200
explore: $(STAMP)  ## 200 worlds of the prober and 200 of the weeder, and every boundary of the scaling runs (docs/exploration.md)
	$(BIN)/python -m bench.explore --worlds $(WORLDS) --seed 4711 --boundaries --jobs 2

explore-long: $(STAMP)  ## 5,000 worlds of each kind with a SEED of your own (SEED=20270115); hours on both cores, goes on where it was stopped
	@test -n "$(SEED)" || { echo "make explore-long: SEED is missing; take one that nobody has played, such as SEED=$$(date +%Y%m%d)" >&2; exit 2; }
	$(BIN)/python -m bench.explore --worlds 5000 --seed $(SEED) --kept explored-$(SEED).jsonl --jobs 2

bench: $(STAMP)  ## what a probe costs, the start, a mass outage, hostile shoots: 30 min on a quiet machine (docs/performance.md)
	$(BIN)/python -m bench.perf
	$(BIN)/python -m bench.hostile

montecarlo: $(STAMP)  ## the Monte Carlo of the rules
	$(BIN)/python -m bench.montecarlo

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
