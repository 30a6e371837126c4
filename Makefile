# `make` alone lists the targets.
SIZE ?= small
export EXACTLY_TEST_SIZE := $(SIZE)
SHELL := /bin/bash
.DEFAULT_GOAL := help

SERVICES := $(if $(EXACTLY_SERVICES_DIR),$(EXACTLY_SERVICES_DIR),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/exactly-services)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## the static binary, bin/exactly
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/exactly ./cmd/exactly

.PHONY: test
test: tools ## install what is missing, start the services, run every test (SUITES="unit harness" for some)
	go run ./test/suites $(SUITES)

.PHONY: full
full: ## everything at full size, results into docs/results
	$(MAKE) SIZE=full full-size
.PHONY: full-size
full-size: tools
	go run ./test/suites -results docs/results $(SUITES)

.PHONY: unit
unit: ## tests that need no service, without the race detector
	go test ./...

SEED ?= 1
N ?= 1000
OUT ?=
REPLAY ?=
sim-test = go run ./test/sim/overlay .cache/sim && \
	go test -count=1 -v -timeout 12h -overlay .cache/sim/overlay.json -tags synctests,mutations,netgo,osusergo ./test/sim
.PHONY: sim
sim: ## N=1000 simulated schedules from SEED=1 on; REPLAY=17 or REPLAY=FILE lives one with its log; OUT=FILE keeps the outcome
	$(sim-test) -run 'TestSimulation|TestReplay' -sim.n $(N) -sim.seed $(SEED) -sim.replay '$(if $(wildcard $(REPLAY)),$(abspath $(REPLAY)),$(REPLAY))' -sim.out '$(if $(OUT),$(abspath $(OUT)))'

.PHONY: mutations
mutations: ## break each rule of the protocol: which schedule notices it; OUT=FILE keeps the table
	$(sim-test) -run TestMutations -sim.seed $(SEED) -sim.out '$(if $(OUT),$(abspath $(OUT)))'

.PHONY: lint
lint: ## format, vet, staticcheck and the rules of internal/lint
	go run ./test/suites lint
	go test -count=1 ./internal/lint

.PHONY: fmt
fmt: ## format every Go file
	go tool gofumpt -w .

.PHONY: generate
generate: ## write generated files anew
	go generate ./...

BENCH := $(SERVICES)/bench
# What Kafka's own start script gives the broker; the tests' brokers compile less.
BENCH_JVM := -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35
BENCH_DSN := postgres://postgres@127.0.0.1:19293/postgres?sslmode=disable
.PHONY: bench
bench: build tools ## figures beside a hand-written loop, about a quarter of an hour, into docs/results (ARGS="--quick" for a look)
	rm -rf $(BENCH) && mkdir -p $(BENCH)/kafka
	KAFKA_HEAP="-Xms1g -Xmx1g" KAFKA_JVM="$(BENCH_JVM)" NICE= test/services/kafka.sh start $(BENCH)/kafka 1 19292
	@pg=$$(mktemp -d) && chmod 755 $$pg && test/services/postgres.sh start $$pg 19293 && \
	bin/exactly bench --brokers 127.0.0.1:19292 --postgres "$(BENCH_DSN)" --json docs/results/bench.json $(ARGS) >$(BENCH)/bench.md; code=$$?; \
	test/services/kafka.sh stop $(BENCH)/kafka; test/services/postgres.sh stop $$pg; rm -rf $$pg; \
	if [ -s $(BENCH)/bench.md ]; then cp $(BENCH)/bench.md docs/results/bench.md; cat $(BENCH)/bench.md; fi; \
	rm -rf $(BENCH); exit $$code

.PHONY: bench-tables
bench-tables: build tools ## rows into PostgreSQL beside COPY and an upsert by hand, about three minutes, into docs/results
	@dir=$$(mktemp -d) && chmod 755 $$dir && \
	test/services/postgres.sh start $$dir 19293 && \
	bin/exactly bench tables --postgres "$(BENCH_DSN)" $(ARGS) >$$dir/tables.md; code=$$?; \
	test/services/postgres.sh stop $$dir; \
	if [ -s $$dir/tables.md ]; then cp $$dir/tables.md docs/results/tables.md; cat $$dir/tables.md; fi; \
	rm -rf $$dir; exit $$code

.PHONY: suites
suites: ## list the suites and their budgets
	@go run ./test/suites -list

.PHONY: size-update
size-update: ## announce a new size of the binary
	go test -count=1 -tags binsize ./test/binsize -update

.PHONY: services-up
services-up: tools ## three Kafka brokers at 127.0.0.1:19092-19094, for a look by hand
	test/services/kafka.sh start $(SERVICES)/up/kafka 3 19092

.PHONY: services-down
services-down: ## stop them and remove their data
	test/services/kafka.sh stop $(SERVICES)/up/kafka
	rm -rf $(SERVICES)/up

.PHONY: tools
tools:
	@test/services/toolchain.sh

.PHONY: clean
clean: ## remove what build made
	rm -rf bin
