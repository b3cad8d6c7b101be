# Banyan. `make help` lists the targets.
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   = -s -w -X main.version=$(VERSION)
STATICCHECK   = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT       = mvdan.cc/gofumpt@v0.12.0
GREMLINS      = github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME ?= 10s
BENCHTIME ?= 1s
SOAKTIME ?= 2m
MUTANTS  ?= .

GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
RELEASE_TIME ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: deploy-check help build demo test check-deep check bench sim fuzz e2e e2e-vllm mutants mutate soak clean release sbom vulncheck

help: ## one line a target
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/banyan, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/banyan ./cmd/banyan

demo: build ## three peers, four mock replicas, traffic, a kill and a join, on loopback
	./bin/banyan demo

test: ## every test, the long ones shortened: what a change needs
	$(GO) test -short -timeout 20m ./...

check-deep: ## in full length the tests that make test shortens; race detector where goroutines meet
	$(GO) test -timeout 20m $$(grep -rl --include='*_test.go' 'testing.Short()' cmd crdt deploy gossip radix router simulation | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	$(GO) test -timeout 20m -race -short ./router/... ./gossip/... ./radix/... ./simulation/standin/... ./cmd/...

check: ## gofumpt, vet, staticcheck, golangci-lint (import rules are a test)
	@out=$$($(GO) run $(GOFUMPT) -l .); if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(GOLANGCI_LINT) run ./...

deploy-check: ## render the Helm chart over a matrix of values; build a release twice and compare; licences (own modules)
	cd deploy/lint && $(GO) vet ./... && $(GO) test -count 1 ./...
	cd deploy/release && $(GO) vet ./... && $(GO) test -count 1 ./...

release: ## archives for Linux and macOS, images for docker load, bill of materials, checksums: out/release, without Docker
	rm -rf out/release
	cd deploy/release && $(GO) run . -version '$(VERSION)' -time '$(RELEASE_TIME)'

sbom: ## the bill of materials alone, CycloneDX: out/
	cd deploy/release && $(GO) run . -sbom -version '$(VERSION)' -time '$(RELEASE_TIME)' -out ../../out

vulncheck: ## known vulnerabilities in what the binary calls; says so and passes where their database cannot be reached
	@out=$$($(GO) run $(GOVULNCHECK) ./cmd/banyan 2>&1) && { echo "$$out"; exit 0; }; echo "$$out"; \
	if echo "$$out" | grep -q 'fetching vulnerabilities'; then echo "vulncheck: the database cannot be reached, nothing was checked"; else exit 1; fi

bench: ## benchmarks of the hot paths with their yardsticks
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) -benchmem ./radix/... ./crdt/... ./router/... ./gossip/...

sim: build ## the evaluation matrix, three seeds, some minutes: tables, plots and a page under out/
	./bin/banyan sim --matrix --out out

clean: ## remove what was built
	rm -rf bin out

e2e: ## real processes on loopback, from the command line down
	$(GO) test -tags e2e -count 1 -timeout 25m -v ./cmd/banyan

e2e-vllm: ## peers before two real vLLM servers without a GPU; installs them once (6 GB), else skips and says why; SHORT=-short
	BANYAN_VLLM=$$(cmd/banyan/testdata/vllm/install.sh) $(GO) test -tags 'e2e e2e_vllm' $(SHORT) -count 1 -timeout 15m -v ./cmd/banyan -run '^TestVLLM$$'

mutants: ## apply each deliberate bug that has a reason (MUTANTS=FOLDER: of one list), table of who kills it
	$(GO) test -tags mutants -count 1 -timeout 0 -v ./cmd/banyan -run 'TestMutants/$(MUTANTS)'

# Without the cache, or the time of the tests is none; without paths, or each copy
# of the tree is compiled anew.
mutate: ## change every operator of a package (PKG=./router/admission), list what its tests let live; some minutes
	@test -n '$(PKG)' || { echo 'make mutate PKG=./FOLDER'; exit 2; }
	GOFLAGS='-count=1 -trimpath' $(GO) run $(GREMLINS) unleash --timeout-coefficient 10 --invert-logical --invert-loopctrl --output-statuses lct $(PKG)

fuzz: ## every fuzz target for FUZZTIME (10s), one after the other, with a table
	FUZZTIME=$(FUZZTIME) $(GO) test -tags fuzz -count 1 -timeout 0 -v ./cmd/banyan -run '^TestFuzz$$'

soak: ## real peers and replicas under load, kills, drains and restarts for SOAKTIME (2m); peers short of CPU; floods of a peer in 1 GiB
	SOAKTIME=$(SOAKTIME) $(GO) test -tags 'e2e soak' -count 1 -timeout 0 -v ./cmd/banyan -run '^(TestSoak|TestStarvedPeersStayInTheBalancer|TestFloodsInAGiB|TestEventsAndBodiesInAGiB|TestEventsAndBodies|TestOutliersBesideEnvoy|TestHeadersThatDoNotEndOverHTTP2)$$'
