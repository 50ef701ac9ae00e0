# Everything here works with Go, git, make and a C compiler; tools come from go.tools.mod. `make help` lists the targets.

# Recipes of several commands begin with $(STRICT) and are one line each, because the make that macOS has (3.81) knows neither
# .SHELLFLAGS nor .ONESHELL.
SHELL := bash
STRICT := set -euo pipefail
.DELETE_ON_ERROR:
# The go command uses all cores by itself; two of it at once only fight over them.
.NOTPARALLEL:
.DEFAULT_GOAL := help

# One way to compile for vet, linter, tests and programs: so go compiles each package once for all of them, and another
# clone finds it in go's cache. Only the race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) $(filter-out $(GOFLAGS),-trimpath -buildvcs=false))

# Modules of the repository: what is shipped, the suites with the demo, the control plane that they run on, the chart's
# renders and tests, the comparison with the scheduler's own filters, the chart's alerts and dashboards by Prometheus' own
# packages, the Karpenter that the suites run beside Stratos, cert-manager's controllers as a program, the suite on real
# nodes, an OCI registry for cluster stacks, and the program that builds releases.
MODULES := . e2e e2e/controlplane e2e/helm e2e/parity e2e/observe e2e/karpenter e2e/certmanager e2e/kind e2e/flannel e2e/flannel/plugin e2e/stacks e2e/release
# Modules that only `make e2e-cni`, `make oracles`, `make observe-test` and `make test-stacks` build, because they import much of others: to vet,
# lint and tidy them with every run would cost minutes.
ORACLE_MODULES := e2e/cilium e2e/oracles e2e/observe/prometheus e2e/stacks/csctl e2e/stacks/capi
TOOL := go tool -modfile=$(CURDIR)/go.tools.mod

# Evaluated only where it is used, because a copy of the tree (verify) has no git.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X main.version=$(VERSION)

# How many packages are built or tested at a time.
P ?= 2
# The race detector for the unit tests; RACE= leaves it out where there is no time or no C compiler.
RACE ?= -race
# Tested without it, because nothing in them runs at the same time as something else: the pure packages,
# and those that only read and render files.
SERIAL := ./charts/... ./crds/... ./extender/fit ./extender/decide ./scaler/lifecycle ./scaler/network \
  ./scaler/plan ./scaler/transition ./provider/price ./provider/userdata ./stacks/...
# Tests that do less under the race detector run once more without it, and do all.
WHOLE := -run '^(TestTwoThousandMachines|TestOneOfFiftyWithoutCapacity)$$' ./provider/fake ./provider/aws
# Per test binary. The longest (suites/exactstarts) takes a third of it; what hangs shall say so.
TIMEOUT ?= 30m
# More arguments of go test, such as TESTFLAGS='-run TestTaintParity'; V=1 shows what passing tests print.
TESTFLAGS ?=
V ?=
# With at most AGAIN failed tests in the suites, each is run once more, alone. A test that passes only
# then is named as UNSTABLE at the end.
AGAIN ?= 2
# Per fuzz target of fuzz-short.
FUZZTIME ?= 5s

RECORDS := dist/records
# The demo and the suites share these binaries; package e2e/controlplane chooses the folder.
CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/stratos

# The files of the tree that exist, untracked ones included, ignored ones not; each ended by a zero byte.
FILES = git ls-files -z --cached --others --exclude-standard $(1) | \
	while IFS= read -r -d '' file; do if [ -e "$$file" ]; then printf '%s\0' "$$file"; fi; done

##@ Everyday

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: controlplane ## Play the main job in a terminal: pool, burst, start, run, back to standby (KEEP=1 leaves it up, PROVIDER=aws plays it on EC2's protocol)
	@go build -C e2e -p $(P) -buildvcs=false -o ../bin/demo ./demo
	@cd e2e && exec ../bin/demo

.PHONY: build
build: ## Build bin/stratos and the plugin bin/kubectl-stratos, static, with their version
	CGO_ENABLED=0 go build -p $(P) -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ ./cmd/stratos ./cmd/kubectl-stratos

.PHONY: generate
generate: ## Write the generated files: deep copies, CRDs, webhook configurations, docs/metrics.md, docs/flags.md, tables of docs/api.md, docs/names.md and docs/alerts.md, docs/acceptance.md, docs/reliability.md, and what the chart takes from the sources
	$(TOOL) controller-gen object paths=./crds/v1alpha1/...
	@rm -rf dist/crds dist/webhook dist/rbac
	$(TOOL) controller-gen crd paths=./crds/v1alpha1/... output:crd:dir=dist/crds
	@rm -f crds/stratos.sh_*.yaml # so that the definition of a type that is gone goes too
	@mv dist/crds/*.yaml crds/ && rmdir dist/crds
	@mkdir -p dist/webhook
	$(TOOL) controller-gen webhook paths=./webhook/... output:webhook:dir=dist/webhook
	go run ./webhook/manifests <dist/webhook/manifests.yaml >dist/webhook/complete.yaml
	@mv dist/webhook/complete.yaml $(WEBHOOK_MANIFESTS) && rm -r dist/webhook
	$(TOOL) controller-gen rbac:roleName=stratos $(foreach folder,cmd extender provider scaler webhook,paths=./$(folder)/...) output:rbac:dir=dist/rbac
	@rm -rf $(GENERATED) && mkdir -p $(GENERATED)/crds
	@cp crds/stratos.sh_*.yaml $(GENERATED)/crds/
	@rm -rf $(CRDS_CHART) && mkdir -p $(CRDS_CHART) && cp crds/stratos.sh_*.yaml $(CRDS_CHART)/
	@cp $(WEBHOOK_MANIFESTS) $(GENERATED)/webhooks.yaml
	@cp dist/rbac/role.yaml $(GENERATED)/rbac.yaml
	@rm -rf dist/rbac
	@cd e2e/helm && go run ./cmd/chart generate
	@for page in metrics flags api names alerts; do go run ./cmd/reference $$page >dist/$$page.md && mv dist/$$page.md docs/$$page.md || exit 1; done
	@cd e2e && go run ./repocheck/check pages ..

# What the chart reads by .Files, and where its webhook configurations come from.
GENERATED := charts/stratos/files/generated
CRDS_CHART := charts/stratos-crds/files/generated
WEBHOOK_MANIFESTS := webhook/manifests.yaml

.PHONY: clean
clean: ## Remove what builds and tests wrote into the tree
	rm -rf bin dist coverage.out

.PHONY: clean-cache
clean-cache: ## Remove the built control-plane binaries as well (minutes to build anew)
	rm -rf '$(CACHE)'

.PHONY: site
site: ## Build the documentation site into docs/build (needs Node 20 and npm; 4 minutes at first)
	@cd docs && npm ci --no-audit --no-fund && npm run build

.PHONY: site-test
site-test: site ## Check the site in Debian's Chromium: links, themes, widths, other hosts, and the questions of readers
	@command -v chromium >/dev/null || { echo "NOT RUN: site-test: install chromium (apt-get install chromium)" >&2; exit 1; }
	@cd docs && npm run check

##@ Tests

# The suites mostly wait for their machines, so all other tests run beside them, with less priority. What those
# say is shown when they have ended. When one of both has, .ci/run begins with its next step.
.PHONY: test
test: bin/check controlplane minors karpenter ## Run everything that proves the promises, then check that each accepted point's tests ran
	@rm -rf $(RECORDS)/test
	@$(STRICT); mkdir -p $(RECORDS)/test; others=$(RECORDS)/test/others.log failed=; \
	nice -n 19 $(MAKE) --no-print-directory test-others RECORD_IN=$(RECORDS)/test >$$others 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null || true' EXIT; trap 'exit 130' INT TERM; \
	$(MAKE) --no-print-directory test-e2e RECORD_IN=$(RECORDS)/test || failed=1; \
	wait $$beside || failed=1; \
	cat $$others; \
	[ -z "$$failed" ]
	bin/check results -command 'make test' -records $(RECORDS)/test

.PHONY: test-others
test-others: test-unit test-parity test-model test-controlplane test-helm test-registry test-packaging test-alerts ## Run all of `make test` but the suites
	@touch $(RECORD_IN)/half-ended

# The inner loop: a minute and a half at most on two cores once all is built. `make test` proves more.
.PHONY: test-fast
test-fast: ## Run the quick tests: unit tests without the race detector, 200 worlds of the model, parity
	@$(MAKE) --no-print-directory test-unit test-model test-parity RACE= RUNS=$(or $(RUNS),200)

# Where the parts of `make test` record what ran; each alone writes beside it, so that it cannot pass for the whole.
RECORD_IN ?= $(RECORDS)/parts
# $(call RUN,FOLDER,RECORD,VARIABLES): gotestsum runs `go test` in the module in FOLDER and records its events.
# It vets nothing, because govet of `make lint` does.
RUN = cd $(1) && runner=$$($(TOOL) -n gotestsum) && $(3) GOFLAGS="$$GOFLAGS -vet=off" exec "$$runner" --jsonfile $(CURDIR)/$(RECORD_IN)/$(2).jsonl \
  --format $(if $(V),standard-verbose,pkgname-and-test-fails) --format-icons text --format-hide-empty-pkg
RERUN = --rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures $(AGAIN) \
  --post-run-command '$(CURDIR)/bin/check rerun'

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane
	@$(call RUN,.,unit-serial) -- -p $(P) -timeout $(TIMEOUT) $(TESTFLAGS) $(SERIAL)
	@$(if $(RACE),$(call RUN,.,unit-whole) -- -p $(P) -timeout $(TIMEOUT) $(WHOLE) $(TESTFLAGS))
	@others=$$(go list ./... | grep -vxF "$$(go list $(SERIAL))"); \
	$(call RUN,.,unit,$(if $(RACE),CGO_ENABLED=1)) --packages "$$others" -- -p $(P) $(RACE) -timeout $(TIMEOUT) $(TESTFLAGS)

# What random worlds the scheduler's own filters and ours are compared in: as many as the test says, from its first seed.
# WORLDS=0 goes on until a minute before TIMEOUT.
WORLDS ?=
SEED ?=

.PHONY: test-parity
test-parity: ## Compare extender/fit with the real kube-scheduler's filters (soak: WORLDS=0 SEED=$$RANDOM)
	@$(call RUN,e2e/parity,parity) -- -p $(P) -timeout $(TIMEOUT) $(TESTFLAGS) ./... \
	  $(if $(WORLDS)$(SEED),-args $(if $(SEED),-seed $(SEED)) $(if $(WORLDS),-worlds $(WORLDS)))

# Seeds that the model plays; empty: as many as its test says.
RUNS ?=

# -count=1 because the worlds are to be played, not remembered.
.PHONY: test-model
test-model: ## Play random worlds around the real code and check the promises after every step (RUNS=200 plays fewer)
	@$(call RUN,e2e,model) -- -p $(P) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) \
	  $(if $(RUNS),./model -args -runs $(RUNS),./model/...)

.PHONY: soak
soak: ## Play random worlds without end, from a random seed (SEED=7 begins there, RUNS=20000 ends)
	@cd e2e && go build -o ../bin/soak ./model/soak && exec ../bin/soak -seed $(or $(SEED),$$RANDOM$$RANDOM) $(if $(RUNS),-runs $(RUNS))

.PHONY: mutants
mutants: ## Plant known bugs one by one and expect the model to find each
	@cd e2e && go build -o ../bin/mutants ./model/mutants && exec ../bin/mutants -root ..

.PHONY: test-controlplane
test-controlplane: controlplane ## Run the tests of the control plane itself
	@$(call RUN,e2e/controlplane,controlplane) -- -p 1 -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./...

.PHONY: test-helm
test-helm: controlplane ## Render, lint and apply the chart by Helm 3 and Helm 4
	@$(call RUN,e2e/helm,helm) -- -p 1 -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./...

.PHONY: test-registry
test-registry: ## Publish and list cluster stacks in the distribution project's registry, over TLS
	@$(call RUN,e2e/stacks,registry) -- -p $(P) -timeout $(TIMEOUT) $(TESTFLAGS) .

.PHONY: test-packaging
test-packaging: ## Run the tests of the program that builds releases
	@$(call RUN,e2e/release,packaging) -- -p $(P) -timeout $(TIMEOUT) $(TESTFLAGS) .

.PHONY: test-alerts
test-alerts: ## Play each alert of the chart by Prometheus' own packages, and parse each query of the dashboards
	@$(call RUN,e2e/observe,alerts) -- -p $(P) -timeout $(TIMEOUT) $(TESTFLAGS) ./...

# Built without the discovery of services, which brings the clients of all clouds. Its tests mostly wait.
.PHONY: observe-test
observe-test: controlplane ## Have a real Prometheus scrape a run: each panel gets data, each alert fires once and ends (a quarter of an hour)
	@cd e2e/observe/prometheus && go mod tidy -diff && go build -p $(P) -tags remove_all_sd -o '$(CACHE)/prometheus' github.com/prometheus/prometheus/cmd/prometheus
	@export STRATOS_PROMETHEUS='$(CACHE)/prometheus'; $(call RUN,e2e,observed) -- -count=1 -parallel 100 -timeout 60m $(TESTFLAGS) ./observed
	@echo 'NOT RUN: Grafana, which would draw the panels: it is not available'

# How many suites run at a time, each with as many tests at a time as there are cores.
SUITES ?= 2

# Each package runs control planes of its own, and mostly waits for them: what is proved is order, not duration.
# -count=1 because the go command cannot see the processes that the result depends on. The longest package begins first.
.PHONY: test-e2e
test-e2e: bin/check controlplane minors karpenter ## Run the suites, the demo's test and the checks of the repository
	@packages=$$(cd e2e && go list ./... | grep -Ev '/e2e/(model|observed)' | awk '/suites[/]exactstarts$$/ {print; next} {rest = rest $$0 "\n"} END {printf "%s", rest}'); \
	$(call RUN,e2e,e2e) $(RERUN) --packages "$$packages" -- -p $(SUITES) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS)
	@touch $(RECORD_IN)/half-ended

.PHONY: test-integration
test-integration: controlplane minors karpenter ## Run only the suites on the real control plane
	@$(call RUN,e2e,integration) -- -p $(P) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./suites/...

# Apart from `make test`, because it builds much and asks Debian for packages.
.PHONY: oracles
oracles: e2e/oracles ## Compare generated user data with nodeadm, Karpenter, cloud-init, kubeadm and systemd (minutes at first; needs the network, root and Debian)
	@cd e2e/oracles && $(TOOL) golangci-lint run -c $(CURDIR)/.golangci.yml ./...
	@$(call RUN,e2e/oracles,oracles) -- -p $(P) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./...

# Apart from `make test`, because it builds csctl, the cluster-stack operator, Cluster API and the programs of the node image,
# which takes minutes at first.
.PHONY: test-stacks
test-stacks: e2e/stacks/csctl e2e/stacks/capi controlplane ## Hold cluster stacks to csctl, Cluster API and the cluster-stack operator, and run the node image's template and scripts (minutes at first; needs the network, root and Debian)
	@$(call RUN,e2e/stacks,stacks) -- -p $(P) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./oracle ./nodeimage
	@$(call RUN,e2e/stacks,management) -- -p $(P) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./management
	@$(call RUN,e2e/helm,stacks-accepted) -- -p $(P) -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) \
	  -run '^TestClusterStacksAreAccepted$$' .

.PHONY: $(ORACLE_MODULES)
$(ORACLE_MODULES):
	@cd $@ && go mod download || { echo "NOT RUN: $@: its modules cannot be fetched" >&2; exit 1; }
	@cd $@ && go mod tidy -diff && go vet -p $(P) ./...

.PHONY: coverage
coverage: ## Write coverage.out of the unit tests, print each function's share and the total
	@go test -p $(P) -timeout $(TIMEOUT) -coverpkg=./... -coverprofile=coverage.out $(TESTFLAGS) ./...
	go tool cover -func=coverage.out

.PHONY: fuzz-short
fuzz-short: ## Fuzz each target for FUZZTIME
	@$(STRICT); grep -rl --include='*_test.go' '^func Fuzz' . | sort | while IFS= read -r file; do \
	  folder=$$(dirname "$$file"); \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
	    echo "$$folder $$target"; \
	    (cd "$$folder" && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -parallel $(P) .); \
	  done; \
	done

.PHONY: controlplane
controlplane: ## Build the control plane's binaries into the cache unless they are there
	@cd e2e/controlplane && go run ./cmd/controlplane build >/dev/null

.PHONY: minors
minors: ## Build the control plane of the oldest supported Kubernetes minor into the cache unless it is there
	@cd e2e/controlplane && go run ./cmd/controlplane build -oldest >/dev/null

# Apart from `make test`, because each older minor takes 5 minutes to build.
.PHONY: matrix
matrix: RECORD_IN := $(RECORDS)/matrix
matrix: bin/check ## Run the suite minors on every supported Kubernetes minor, and apply the chart on these and on the one before
	@rm -rf $(RECORD_IN)
	@$(STRICT); cd e2e/controlplane; for file in minors/*.mod; do \
	  go mod tidy -modfile=$$file -diff || { echo "matrix: run go mod tidy -modfile=$$file in e2e/controlplane" >&2; exit 1; }; \
	done; go run ./cmd/controlplane build -all >/dev/null
	@$(call RUN,e2e,minors) -- -p 1 -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./suites/minors -args -all
	@$(call RUN,e2e/helm,chart) -- -p 1 -count=1 -timeout $(TIMEOUT) -run '^TestEveryRenderedObjectIsAccepted$$' . -args -all
	bin/check results -command 'make matrix' -records $(RECORD_IN)

ROUNDS ?= 20

# Apart from `make test`, which plays two small rounds. MINOR is a Kubernetes minor such as 1.34; empty is the newest.
.PHONY: nomination
nomination: controlplane karpenter ## Play bursts of 200 pods on a stock scheduler that sees the claims by nominations, and of 50 beside Karpenter (ROUNDS=5, MINOR=1.34 without Karpenter)
	@$(call RUN,e2e,nomination) -- -p 1 -count=1 -v -timeout 3h $(TESTFLAGS) ./suites/nomination -args -rounds $(ROUNDS) -pods 200 \
	  $(if $(MINOR),-minor $(MINOR))
	@$(if $(MINOR),,$(call RUN,e2e,nominated) -- -p 1 -count=1 -v -timeout 1h $(TESTFLAGS) -run '^TestKarpenterBesideStratos$$/^nominated' \
	  ./suites/karpenter -args -bursts $(ROUNDS) -replicas 50 -boot 30s)

REPLICAS ?= 1000

# Likewise: `make test` plays owners of 60 replicas.
.PHONY: ahead
ahead: controlplane ## Play bursts of 1000 replicas whose owners are scaled, deleted, suspended or refused in their middle (REPLICAS=200)
	@$(call RUN,e2e,ahead) -- -p 1 -count=1 -v -timeout 3h $(TESTFLAGS) ./suites/ahead -args -replicas $(REPLICAS)

.PHONY: stack-charts
stack-charts: ## Fetch the charts that the cluster stacks depend on from Go modules to dist/stack-charts, unless they are there
	@go run ./cmd/stratos stack charts stacks

.PHONY: karpenter
karpenter: ## Build the Karpenter that the suites run beside Stratos into the cache unless it is there
	@cd e2e && go run ./framework/cmd/karpenter >/dev/null

##@ Figures

.PHONY: measures
measures: ## Measure the code of the product and write the row into docs/measures.md
	@cd e2e && go run ./repocheck/measure -root .. -write

# None of these is part of `make test`, which proves no time. docs/performance.md says how they measure and holds their last tables.
SCENARIO ?=
SCALE ?= 1
PLAN ?= 1x10,50x3,500x2,1000x2
# DOC=1 writes the table into the page.
PAGE = $(if $(DOC),--page=$(CURDIR)/docs/performance.md)
# PROFILES=1 takes profiles of Stratos and of the schedulers, by scenario.
PROFILES ?=

.PHONY: bench
bench: controlplane ## Measure Stratos beside its floor and print a table (SCENARIO=pod,burst plays these, SCALE=1/8 shrinks, DOC=1 writes docs/performance.md, PROFILES=1 takes profiles into dist/bench/profiles)
	@go build -C e2e -p $(P) -buildvcs=false -o ../bin/bench ./bench
	@bin/bench --scenario=$(SCENARIO) --scale=$(SCALE) --out=dist/bench $(PAGE) $(if $(PROFILES),--profiles=dist/bench/profiles)

.PHONY: bench-compare
bench-compare: controlplane karpenter ## Measure Stratos beside Karpenter on one control plane (PLAN=1x10,50x3,500x2,1000x2 is pods x rounds, DOC=1 writes docs/performance.md)
	@go build -C e2e -p $(P) -buildvcs=false -o ../bin/compare ./bench/compare
	@bin/compare --plan=$(PLAN) --out=dist/bench $(PAGE)

# What bench-diff compares with, and how often each side is measured.
BASE ?= main
COUNT ?= 6
PURE := ./extender ./extender/fit ./extender/decide ./scaler/plan ./scaler/lifecycle

# Both sides take turns, so that what else the machine does hits both. A package that BASE has not is measured here alone.
.PHONY: bench-diff
bench-diff: ## Compare the Go benchmarks of the pure packages here with those at BASE=ref, by benchstat
	@$(STRICT); work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; mkdir -p "$$work/base" dist/bench; \
	git archive '$(BASE)' | tar -xf - -C "$$work/base"; \
	: >"$$work/base.txt"; : >"$$work/now.txt"; \
	for round in $$(seq $(COUNT)); do for side in base now; do \
	  tree="$$work/base"; if [ $$side = now ]; then tree=$(CURDIR); fi; \
	  for package in $(PURE); do \
	    if [ -d "$$tree/$$package" ]; then (cd "$$tree" && go test -run '^$$' -bench . -benchmem -benchtime 200ms "$$package") >>"$$work/$$side.txt"; fi; \
	  done; \
	  echo "round $$round of $(COUNT): $$side" >&2; \
	done; done; \
	$(TOOL) benchstat base="$$work/base.txt" now="$$work/now.txt" | tee dist/bench/diff.txt

##@ Starts

# Apart from `make test`, because these take minutes, and ask Debian and Ubuntu for packages.
.PHONY: starts
starts: RECORD_IN := $(RECORDS)/starts
starts: bin/check controlplane ## Start 200 of 250 stopped instances whose type has run out, and boot machines of the family Kubeadm twice, by real systemd and cloud-init (minutes at first; needs the network, root and Debian)
	@rm -rf $(RECORD_IN)
	@$(call RUN,e2e,othertype) -- -p 1 -count=1 -v -timeout $(TIMEOUT) $(TESTFLAGS) -run '^TestStartsAsAnotherType$$' ./suites/ec2 \
	  -args -standby 250 -starts 200
	@$(call RUN,e2e/stacks,secondboot) -- -p 1 -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) -run '^TestSecondBoot' ./nodeimage
	bin/check results -command 'make starts' -records $(RECORD_IN)

##@ Real nodes

# Apart from `make test`: these need Docker, or root on a Debian machine to install it. docs/development.md says what they do.
KIND := e2e/kind/kind.sh

.PHONY: e2e-kind
e2e-kind: bin/check ## Bring up a kind cluster and run the suite on its real nodes, beside it the same with flannel as the network; logs in dist/kind where something fails
	@rm -rf $(RECORDS)/e2e-kind
	@STRATOS_KIND_BESIDE=flannel STRATOS_KIND_RECORD=$(CURDIR)/$(RECORDS)/e2e-kind/kind.jsonl $(KIND) all $(TESTFLAGS)
	bin/check results -command 'make e2e-kind' -records $(RECORDS)/e2e-kind

.PHONY: e2e-cni
e2e-cni: bin/check e2e/cilium ## Run five lives of a node beside a DaemonSet aws-node, and beside the real controller of Cilium's operator, in a kind cluster of their own
	@rm -rf $(RECORDS)/e2e-cni
	@STRATOS_KIND_SUITE=cni STRATOS_KIND_RECORD=$(CURDIR)/$(RECORDS)/e2e-cni/cni.jsonl $(KIND) all $(TESTFLAGS)
	bin/check results -command 'make e2e-cni' -records $(RECORDS)/e2e-cni

.PHONY: e2e-kind-up
e2e-kind-up: ## Bring up a kind cluster, offline too, with cert-manager and this checkout's Stratos in it
	@$(KIND) up && $(KIND) load && $(KIND) install

.PHONY: e2e-kind-test
e2e-kind-test: bin/check ## Run the suite in the cluster of e2e-kind-up
	@STRATOS_KIND_RECORD=$(CURDIR)/$(RECORD_IN)/kind.jsonl $(KIND) test $(TESTFLAGS)

.PHONY: e2e-kind-look
e2e-kind-look: ## Show the cluster's nodes, pools, pods and containers
	@$(KIND) look

.PHONY: e2e-kind-down
e2e-kind-down: ## Remove the cluster, and end Docker where e2e-kind-up started it
	@$(KIND) down

.PHONY: try
try: ## Bring up a kind cluster with a pool of stopped nodes, and say what to type
	@STRATOS_KIND_CLUSTER=stratos-try $(KIND) try

.PHONY: try-down
try-down: ## Remove what try has brought up
	@STRATOS_KIND_CLUSTER=stratos-try $(KIND) down

# Always asked for: the go command knows better than make whether it is up to date.
.PHONY: bin/check
bin/check:
	@go build -C e2e -buildvcs=false -o ../bin/check ./repocheck/check

##@ Releases

# docs/release.md says what these write and how it is verified. KEY is a private key of cosign, KEYLESS=1 the identity of a workflow.
KEY ?=
KEYLESS ?=
REGISTRY ?=
RELEASE = cd e2e/release && go run ./cmd/release
SIGN = $(if $(KEY),-key '$(abspath $(KEY))') $(if $(KEYLESS),-keyless)

.PHONY: release
release: ## Build image, charts, plugin archives, checksums, krew manifest and notes into dist/release (VERSION=v0.2.0-rc.1; KEY=cosign.key or KEYLESS=1 signs)
	@$(RELEASE) build -version '$(VERSION)' $(SIGN)

.PHONY: release-push
release-push: ## Push image and charts of dist/release and sign them by digest (REGISTRY=ghcr.io/stratos-sh; KEY=cosign.key or KEYLESS=1 signs)
	@$(RELEASE) push -registry '$(REGISTRY)' $(SIGN)

# Apart from `make test`, because it builds ko, cosign and the plugin for five platforms.
.PHONY: release-test
release-test: controlplane ## Build a trial release from two clones, compare, push, verify and install it (a quarter of an hour at first)
	@$(call RUN,e2e/release,release) -- -p 1 -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./acceptance

.PHONY: release-draft
release-draft: ## Draft the release of VERSION on GitHub with the files of dist/release, by gh
	gh release create '$(VERSION)' --draft --verify-tag --title 'Stratos $(VERSION)' --notes-file dist/release/release-notes.md \
	  $(if $(findstring -,$(VERSION)),--prerelease) dist/release/*.tar.gz dist/release/*.zip dist/release/*.tgz \
	  dist/release/stratos.yaml dist/release/SHA256SUMS* dist/release/sbom/*

##@ Checks

.PHONY: verify
verify: verify-generated verify-modules verify-format verify-repo verify-stacks ## Fail when generated files, modules, format, the rules of the repository or versions of cluster stacks are off
	@echo "verify: all is well"

# In a copy, so that checking never changes the tree; with untracked files, so that a forgotten `git add` shows too.
.PHONY: verify-generated
verify-generated:
	@$(STRICT); work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; mkdir "$$work/before"; \
	$(call FILES) | tar --null -T - -cf - | tar -xf - -C "$$work/before"; \
	cp -R "$$work/before" "$$work/after"; \
	$(MAKE) --no-print-directory -C "$$work/after" generate >/dev/null; \
	(cd "$$work" && diff -ruN before after) || { echo "verify: generated files are stale: run make generate" >&2; exit 1; }

# The oldest supported Kubernetes minor, one of the two that are built here; `make matrix` tidies the others.
OLDEST := 1.34

# The module files of tools cannot be tidied (they would take in the root module's own imports), but they must be complete.
# Those of ko and cosign are read by `make release` alone: their modules are 1.9 GB.
.PHONY: verify-modules
verify-modules:
	@$(STRICT); for module in $(MODULES); do \
	  (cd "$$module" && go mod tidy -diff) || { echo "verify: run go mod tidy in $$module" >&2; exit 1; }; \
	done
	@$(STRICT); cd e2e/controlplane; for file in node.mod minors/$(OLDEST).mod; do \
	  go mod tidy -modfile=$$file -diff || { echo "verify: run go mod tidy -modfile=$$file in e2e/controlplane" >&2; exit 1; }; \
	done
	@$(STRICT); for file in go.tools.mod go.actionlint.mod; do go list -modfile=$$file -mod=readonly -deps tool >/dev/null; done

.PHONY: verify-format
verify-format:
	@$(STRICT); off=$$($(call FILES,-- '*.go') | xargs -0 gofmt -l); \
	if [ -n "$$off" ]; then echo "verify: not formatted by gofmt:" $$off >&2; exit 1; fi

# The import law, the floor plan, and docs/guarantees.yaml against the sources.
.PHONY: verify-repo
verify-repo:
	@cd e2e && go test -count=1 ./repocheck/...

# Needs no network: a chart of others counts by its line in stacks/charts.lock.
.PHONY: verify-stacks
verify-stacks:
	@go run ./cmd/stratos stack bump --check stacks

.PHONY: lint
lint: ## Run golangci-lint, the import law included, on every module, and actionlint on the workflows (the first build takes a minute or more)
	@$(STRICT); for module in $(MODULES); do \
	  echo "lint $$module"; \
	  (cd "$$module" && $(TOOL) golangci-lint run -c $(CURDIR)/.golangci.yml ./...); \
	done
	@go tool -modfile=go.actionlint.mod actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml
