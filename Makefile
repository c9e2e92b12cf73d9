# outboard: `make help` says what there is.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: all build test demo install-deps help

all: build

build: ## Build everything, optimised
	@scripts/deps.sh build
	$(CARGO) build --release --workspace

test: ## Run the whole suite (what CI runs): checks, tests, docs
	@scripts/deps.sh test
	$(CARGO) xtask ci

demo: ## Serve a site on a private engine and account for it; KEEP=1 leaves it up
	@scripts/deps.sh demo
	$(CARGO) build --release --package outboard --package outboard-preload
	@$(TARGET)/release/outboard demo $(if $(KEEP),--keep)

install-deps: ## Install the Debian packages that are missing (as root), or say how
	@scripts/deps.sh test

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
