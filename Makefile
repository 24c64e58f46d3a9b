# make test does everything that a change must pass, on a fresh machine with Go
# and, for the exchange with other engines, a Debian-like system.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
MODULES     := . $(patsubst %/go.mod,%,$(wildcard cmd/*/go.mod internal/*/go.mod))
TARGETS     := linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
FUZZTIME    ?= 10s

.PHONY: test setup format vet lint build-all unit race fuzz bench

test: setup format vet lint build-all unit race
	@echo "all checks passed"

# Other engines to compare with, where the system has packages of them.
setup:
	@$(GO) version
	@for script in $(wildcard internal/*/setup.sh); do sh $$script || exit 1; done

format:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }

vet:
	@for m in $(MODULES); do echo "vet $$m"; (cd $$m && $(GO) vet ./...) || exit 1; done

lint:
	@for m in $(MODULES); do echo "staticcheck $$m"; (cd $$m && $(GO) run $(STATICCHECK) ./...) || exit 1; done

# Every system and word size that is supported compiles, tests included.
build-all:
	@for t in $(TARGETS); do echo "build $$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./... || exit 1; done

unit:
	@for m in $(MODULES); do echo "test $$m"; (cd $$m && $(GO) test ./...) || exit 1; done

race:
	$(GO) test -race ./...

# Each fuzz target for FUZZTIME.
fuzz:
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg || exit 1; \
		done; done

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...
