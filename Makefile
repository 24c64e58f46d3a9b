# make test is what a user runs, make check what a contributor runs too; .ci/run is what continuous integration runs and
# what a change must pass; make test-all is everything in full, before a release. CONTRIBUTING.md says how long they take.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
PROSE       ?= github.com/vale-cli/vale/v3/cmd/vale@v3.22.0
# The module that has goleveldb's path. It is in a workspace of its own, because others need goleveldb.
STANDIN     := compat/goleveldb
MODULES     := . $(patsubst %/go.mod,%,$(filter-out $(STANDIN)/go.mod,$(wildcard cmd/*/go.mod internal/test/*/go.mod backup/*/go.mod compat/*/go.mod metrics/*/go.mod cluster/go.mod)))
# Another system and another word size at once. Each target costs two minutes without a build cache, so make platforms
# has the others.
TARGET      := windows/386
MORE_TARGETS := linux/386 darwin/arm64 windows/amd64
# What compiles without its tests. The last three have no directories that can be locked, but a store in memory.
BUILD_TARGETS := linux/arm64 aix/ppc64 android/arm64 darwin/amd64 dragonfly/amd64 freebsd/amd64 illumos/amd64 linux/arm linux/loong64 \
               linux/ppc64le linux/riscv64 linux/s390x netbsd/amd64 openbsd/amd64 solaris/amd64 windows/arm64 js/wasm plan9/amd64 wasip1/wasm
FUZZTIME    ?= 10s
SOAKTIME    ?= 24h
# The C and C++ engines that cmd/peerbench can be built with here; no other module has such tags.
TAGS         = $(shell sh cmd/peerbench/tags.sh)
# A short comparison; docs/performance.md has what a long one takes.
PEERS_FLAGS ?= --num=200000 --rounds=1
# What one package may take. The default, 10 minutes, is too short for db with the race detector.
PATIENCE    ?= 40m
# make vet has checked the tests too. Without -vet=off, go test checks each package again with all that it imports, and
# once more with the race detector. Without the tables of debuggers a test program is linked in two thirds of the time.
# Tests open thousands of small stores, whose garbage is collected less often here: crash and fault tests take 26 % less
# processor time, and 280 MB of memory where they took 200.
TEST         = GOGC=400 $(GO) test -vet=off -ldflags=-w -timeout $(PATIENCE)
# A program with the race detector waits a second before it exits, for races of goroutines that have not ended.
TEST_RACE    = GORACE=atexit_sleep_ms=20 $(TEST) -race -short
# Prints what go test runs of some packages: for the kind race the tests that use goroutines, for another kind those
# with that kind in a line //make:KIND above them. So no list of tests is kept here.
CHOOSE      := $(GO) run ./internal/test/choose
# Modules that make unit-short leaves out: they compare with other engines, and the programs of some take minutes to
# build. make unit has them.
LEFT_OUT    ?= ./internal/test/interop/... ./cmd/peerbench/... ./compat/conformance/...
# All packages of all modules, for one go command: it uses each processor to the end, where
# a command for each module waits for the slowest package of each.
EVERYTHING  := ./... $(patsubst %,./%/...,$(filter-out .,$(MODULES)))
# What users build: the library and its command-line tool.
SHIPPED     := ./... ./cmd/sievedb/...
# The server. Its tests start clusters that elect leaders by the clock, so few of its packages run at a time.
SERVER      := ./cluster/...

# What the store is made of: the packages of the first module that users may link, and what these import. Tests must
# reach LEAST % of the statements of each.
CORE         = $(filter-out docs cmd/internal/% internal/test/%,$(shell $(GO) list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' ./... | sed -n 's,^github.com/sievedb/sievedb/,,p'))
LEAST       ?= 90
# The tests of a room alone must reach this much of it.
ROOM_LEAST  ?= 80

# What a user takes: the packages that programs import, with the tests of whole stores and of the Go of pages; the tests
# of the repository itself and of what tests are made of are in make check and .ci/run.
USED         = $(filter-out %/docs github.com/sievedb/sievedb/internal/test/%,$(or $(shell $(GO) list ./...),$(error go list failed))) ./internal/test/metamorphic ./internal/test/crashtest ./internal/test/damage ./internal/test/golden ./internal/test/pages ./cmd/sievedb/... ./cmd/dbbench/...
# The flags of TEST: progress runs the go command itself.
USER_FLAGS  := -vet=off -ldflags=-w -gcflags=all=-dwarf=false -timeout=$(PATIENCE) -short
NOT_RUN     := left out: linters and prose (make check); the cluster beyond this, other engines, every crash state and the race \
               detector (.ci/run); all tests in full (make test-all)

.PHONY: test check test-all setup format vet lint prose pages build-all wasm unit-short cluster-short gates unit coverage race unit-race cluster-race race-all platforms wine fuzz soak bench peers sizes release-test

test:
	@$(GO) version
	@smoke=$$($(CHOOSE) smoke $(SERVER)) && GOGC=400 $(GO) run ./internal/test/progress -left-out '$(NOT_RUN)' \
		'the library, sievedb and dbbench' . '$(USER_FLAGS) $(USED)' \
		'the library under the path of goleveldb' $(STANDIN) '$(USER_FLAGS) ./...' \
		'three nodes of sieved, of which one is killed' . "$(USER_FLAGS) $$smoke"

check:
	@bash .ci/steps format vet lint prose pages
	@echo "all checks passed; make test has the tests of the store"

# The tests in full with their coverage, again under the race detector, and builds for other systems.
test-all: setup format vet lint prose build-all wasm unit coverage race-all
	@echo "all checks passed"

# Other engines to compare with, and a browser for tests to look at a page with, where the
# system has packages of them. It asks before it installs; where CI is set it does not.
setup:
	@$(GO) version
	@sh .ci/setup

format:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }

vet:
	$(GO) vet -tags '$(TAGS)' $(EVERYTHING)
	cd $(STANDIN) && $(GO) vet ./...

lint:
	$(GO) run $(STATICCHECK) -tags '$(TAGS)' $(EVERYTHING)
	cd $(STANDIN) && $(GO) run $(STATICCHECK) ./...

# The words of documents, comments, error texts and outputs. The rules are in .vale/SieveDB. The
# linter's parsers are C; without optimization they build in half of the time.
prose:
	@if command -v "$${CC:-cc}" >/dev/null 2>&1; then CGO_ENABLED=1 CGO_CFLAGS='-O0 -w' $(GO) run $(PROSE) --output=line .; \
	else echo "prose: not run, for a C compiler is missing"; test -z "$$SIEVEDB_REQUIRE_ALL"; fi

# The tests of pages, of the shape of the code, and of the modules.
pages:
	$(TEST) -short ./docs

# Another system compiles, tests included; make vet has this one, and make platforms all.
build-all:
	GOOS=$(word 1,$(subst /, ,$(TARGET))) GOARCH=$(word 2,$(subst /, ,$(TARGET))) CGO_ENABLED=0 $(GO) vet $(SHIPPED) $(SERVER)

# The store in memory under node, and the errors of the standard library, which that build has.
wasm:
	$(GO) test -tags sievedb_stderrors ./internal/base/errors
	@if command -v node >/dev/null 2>&1; then tests=$$($(CHOOSE) wasm ./...) && GOOS=js GOARCH=wasm $(GO) test -short -timeout $(PATIENCE) \
		-exec "$$($(GO) env GOROOT)/lib/wasm/go_js_wasm_exec" $$tests; \
	else echo "wasm: not run, for node is missing; Debian has it in nodejs"; test -z "$$SIEVEDB_REQUIRE_ALL"; fi

# The tests of all modules but LEFT_OUT; those that try everything try part of it.
unit-short:
	$(TEST) -short -tags '$(TAGS)' $(filter-out $(SERVER) $(LEFT_OUT),$(EVERYTHING))
	cd $(STANDIN) && $(TEST) -short ./...

# No package of these takes two minutes: what takes ten waits for ever, and go test shows where.
cluster-short:
	$(TEST) -timeout 10m -short -p 2 $(SERVER)

# The tests that try every operation, sync and bit, in full: no change may fail them.
gates:
	@tests=$$($(CHOOSE) gates ./...) && $(TEST) $$tests

# Packages without tests are left out: to report on them, go needs a tool that
# downloaded toolchains lack. The coverage is that of the first module.
unit:
	@$(TEST) -coverprofile=coverage.out -coverpkg=$$(echo $(CORE:%=./%) | tr ' ' ,) \
		$$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
	@awk -v least=$(LEAST) -v packages="$(CORE)" -f .ci/coverage.awk coverage.out
	@$(TEST) -tags '$(TAGS)' $(filter-out ./... $(SERVER),$(EVERYTHING))
	@$(TEST) -p 1 $(SERVER)
	@cd $(STANDIN) && $(TEST) ./...

# What the tests of each room reach of it alone, in their short form. Rooms without tests reach nothing.
coverage:
	@{ $(GO) list -f '{{if not (or .TestGoFiles .XTestGoFiles)}}{{.ImportPath}} coverage: 0.0% of statements{{end}}' $(CORE:%=./%); \
		$(TEST) -short -cover $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(CORE:%=./%)); } | \
		awk -v least=$(ROOM_LEAST) -v prefix=github.com/sievedb/sievedb/ -f .ci/rooms.awk

# The race detector slows tests about tenfold, so they run in their short form, and only those that use goroutines:
# go run ./internal/test/choose -why race ./db prints them with the reasons. make race-all runs the others too.
race: unit-race cluster-race

unit-race:
	@tests=$$($(CHOOSE) race $(filter-out $(SERVER) $(LEFT_OUT),$(EVERYTHING))) && $(TEST_RACE) $$tests
	@tests=$$($(CHOOSE) -C $(STANDIN) race ./...) && cd $(STANDIN) && $(TEST_RACE) $$tests

cluster-race:
	@tests=$$($(CHOOSE) race $(SERVER)) && $(TEST_RACE) -timeout 10m -p 2 $$tests

race-all:
	$(TEST_RACE) $(filter-out $(SERVER) $(LEFT_OUT),$(EVERYTHING))
	$(TEST_RACE) -p 1 $(SERVER)
	cd $(STANDIN) && $(TEST_RACE) ./...

# All systems and word sizes that are supported compile. Then the tests on a 32-bit machine, on one whose bytes run the
# other way, and on one that fuses multiplications. amd64 runs 386 itself; the others are emulated and take about half
# an hour. Of db and of whole stores, the tests in which sizes and bytes matter.
platforms:
	@for t in $(TARGET) $(MORE_TARGETS); do echo "build $$t"; export GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0; \
		$(GO) vet $(SHIPPED) $(SERVER) && (cd $(STANDIN) && $(GO) vet ./...) || exit 1; done
	@for t in $(BUILD_TARGETS); do echo "build $$t"; GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build $(SHIPPED) || exit 1; done
	@portable=$$($(CHOOSE) portable ./db ./internal/test/golden ./internal/test/metamorphic ./internal/test/damage) || exit 1; for p in 386 s390x/qemu-s390x-static arm64/qemu-aarch64-static; do \
		arch=$${p%%/*}; emulator=$${p#$$arch}; emulator=$${emulator#/}; \
		if test -n "$$emulator" && ! command -v $$emulator >/dev/null; then \
			echo "$$arch: not run, for $$emulator is missing; Debian has it in qemu-user-static"; missing=1; continue; fi; \
		echo "test $$arch"; export GOARCH=$$arch CGO_ENABLED=0 SIEVEDB_TEST_EMULATOR=$$emulator; \
		$(GO) test -timeout 1h $${emulator:+-exec $$emulator} $(filter-out ./db,$(CORE:%=./%)) && \
		$(GO) test -timeout 1h $${emulator:+-exec $$emulator} $$portable || exit 1; \
	done; test -z "$$missing"

# Tests of vfs, db and backup for windows/amd64 under Wine; not a part of .ci/run. The script says what is missing.
wine:
	@sh .ci/wine

# Each fuzz target for FUZZTIME, also those of the command, of the server and of the module with goleveldb's path.
FUZZ_ALL     = for pkg in $$($(GO) list $(1)); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg || exit 1; \
		done; done
fuzz:
	@$(call FUZZ_ALL,$(SHIPPED) $(SERVER))
	@cd $(STANDIN) && $(call FUZZ_ALL,./...)

# The long runs of docs/reliability-runs.md, one after another; it takes a day and
# more.
soak:
	$(GO) test -timeout 12h -run 'TestCrashAtEveryOperation$$' ./internal/test/crashtest -crash.states M0,M1,M2,M3,M4,M5 -crash.seeds 30
	$(GO) test -timeout 12h -run TestCrashAtEveryOperationOfARecovery ./internal/test/crashtest -crash.states M0,M1,M2,M3,M4,M5
	$(GO) test -timeout 12h -run TestAnErrorAtEveryOperation ./internal/test/crashtest -fault.ops 5000
	$(GO) test -timeout 12h -run TestTwoErrorsInOneRun ./internal/test/crashtest -fault.pairs 100000
	$(GO) test -timeout 12h -run TestFillsOfARealDisk ./db -fill.count 500
	$(GO) test -timeout 12h -run 'Flip|Truncated|TornTail' ./internal/test/damage -damage.shapes -damage.doubles 100000
	$(GO) test -timeout 12h -run TestMalformedTables ./sstable -malformed.tables 100000
	$(GO) test -timeout 12h -run TestFiltersHaveNoFalseNegatives ./sstable -truth.keys 1000000000
	$(GO) test -timeout 12h -v -run TestMeasuredRates ./filter/... -rates.long
	$(GO) test -timeout 12h -run 'TestNo.*FilterDeniesItsKeys' ./filter/... -rates.denials 100000000
	$(GO) test -timeout 12h -run TestKilledProcesses ./internal/test/crashtest -kill.cycles 1000
	cd internal/test/linearizability && $(GO) test -timeout 12h -race -run Linearizable . -lin.histories 100
	$(GO) test -timeout 12h -count 100 ./filter/... ./internal/limit/cache -statistics.seed=0
	$(GO) test -timeout 12h -count 100 -run 'PointSearch|GuessedSlicePositions' ./sstable -statistics.seed=0
	$(GO) test -timeout 12h -count 100 -run UnderTheOldFilterName ./internal/test/golden -statistics.seed=0
	$(GO) test -timeout 12h -count 100 -run ThroughAFullCache ./internal/disk/tables -statistics.seed=0
	$(GO) test -timeout 12h -run TestOptions ./internal/test/metamorphic -meta.seeds 500 -meta.ops 10000
	$(GO) test -timeout 48h -v -run TestSoak ./internal/test/soak -soak.for $(SOAKTIME)
	cd internal/test/linearizability && $(GO) test -timeout 12h . -lin.histories 1000
	cd internal/test/interop && $(GO) test -timeout 12h -run Random . -interop.random 1000
	cd internal/test/interop && $(GO) test -timeout 12h -run TestFollowersOfKilledWriters . -follow.rounds 1000
	$(GO) test -timeout 12h -run TestChainsOfBackups ./backup -chain.rounds 2000
	cd backup/blob/s3test && $(GO) test .
	cd compat/conformance && $(GO) test -timeout 12h -run 'Random|Suites|Damage' . -compat.seeds 300 -compat.long -compat.damages 1000
	$(GO) test -timeout 12h ./internal/test/zoo -zoo.all
	cd cluster && $(GO) test -timeout 24h ./internal/nemesis -run 'StayLinearizable|ReplacedFromOther' -nemesis.for 10m -count 16
	$(MAKE) fuzz FUZZTIME=10m

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The size of a small program that opens a store, for README and decision 7.
sizes:
	@.ci/sizes

# Follows docs/releasing.md with this checkout as v0.1.0, and uses the modules as a user does.
release-test:
	@$(GO) test -timeout 1h -run TestARelease ./docs -release

# SieveDB and its peers under the same workloads: docs/performance.md. The second program has
# compat/goleveldb in goleveldb's place.
peers:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	(cd $(STANDIN) && $(GO) build -o "$$dir/as-goleveldb" github.com/sievedb/sievedb/cmd/peerbench) && \
	PEERBENCH_AS_GOLEVELDB="$$dir/as-goleveldb" $(GO) run -tags '$(TAGS)' ./cmd/peerbench $(PEERS_FLAGS)
