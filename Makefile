# outboard: `make help` says what there is.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Where what was built is, and where it goes.
BUILT ?= $(TARGET)/release
PREFIX ?= /usr/local
DESTDIR ?=
# Where the libraries to link with go.
LIBDIR ?= $(PREFIX)/lib

bin := $(DESTDIR)$(PREFIX)/bin
lib := $(DESTDIR)$(PREFIX)/lib
libdir := $(DESTDIR)$(LIBDIR)
include := $(DESTDIR)$(PREFIX)/include
share := $(DESTDIR)$(PREFIX)/share
doc := $(share)/doc/outboard
generated := $(TARGET)/generated

.PHONY: all build test long demo install install-files uninstall deb pages site install-deps help

all: build

build: ## Build everything, optimised
	@scripts/deps.sh build
	$(CARGO) build --release --workspace

test: ## Run the whole suite (what CI runs): checks, tests, docs
	@scripts/deps.sh test
	$(CARGO) xtask ci

# Minutes of simulated scenarios and of random programs.
MINUTES ?= 30

long: ## Run what takes hours beside the suite: other kernels, a storm, simulations, random programs; MINUTES=30 of each
	@scripts/deps.sh test
	$(CARGO) xtask simulate --minutes $(MINUTES)
	$(CARGO) xtask differ --minutes $(MINUTES)
	ulimit -n 200000 && OUTBOARD_STORM=65000 OUTBOARD_STORM_IDLE=1 \
		$(CARGO) test --release -p outboard-engine --test beside_the_kernel storm -- --nocapture
	$(CARGO) xtask suites
	$(CARGO) xtask machines

demo: ## Serve a site on a private engine and account for it; KEEP=1 leaves it up
	@scripts/deps.sh demo
	$(CARGO) build --release --package outboard --package outboard-preload
	@$(TARGET)/release/outboard demo $(if $(KEEP),--keep)

install: build install-files ## Build, and install below PREFIX (/usr/local); DESTDIR stages it

install-files: # What was built before, for packagers
	install -d $(bin) $(lib)/outboard $(lib)/systemd/system $(lib)/sysusers.d $(lib)/tmpfiles.d \
		$(share)/man/man1 $(share)/man/man3 $(share)/man/man5 $(share)/bash-completion/completions $(share)/zsh/vendor-completions \
		$(share)/fish/vendor_completions.d $(doc)/examples
	install -m 755 $(BUILT)/outboard $(bin)/outboard
	install -m 644 $(BUILT)/liboutboard_preload.so $(lib)/outboard/liboutboard_preload.so
	install -d $(include)
	install -m 644 crates/capi/include/outboard.h crates/capi/include/tcps.h $(include)/
	install -D -m 644 $(BUILT)/liboutboard.a $(libdir)/liboutboard.a
	$(CC) $(LDFLAGS) -shared -o $(libdir)/liboutboard.so.0 -Wl,-soname,liboutboard.so.0 -Wl,--gc-sections \
		-Wl,-z,relro,-z,now -Wl,--version-script=crates/capi/outboard.map \
		-Wl,--whole-archive $(BUILT)/liboutboard.a -Wl,--no-whole-archive \
		-lpthread -ldl -lm -lgcc_s
	ln -sf liboutboard.so.0 $(libdir)/liboutboard.so
	install -d $(libdir)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|' packaging/outboard.pc >$(libdir)/pkgconfig/outboard.pc
	chmod 644 $(libdir)/pkgconfig/outboard.pc
	rm -rf $(generated)
	$(BUILT)/outboard generate $(generated)
	install -m 644 $(generated)/man1/*.1 $(share)/man/man1/
	install -m 644 $(generated)/man3/*.3 $(share)/man/man3/
	install -m 644 $(generated)/man5/*.5 $(share)/man/man5/
	install -m 644 $(generated)/bash/outboard.bash $(share)/bash-completion/completions/outboard
	install -m 644 $(generated)/zsh/_outboard $(share)/zsh/vendor-completions/_outboard
	install -m 644 $(generated)/fish/outboard.fish $(share)/fish/vendor_completions.d/outboard.fish
	sed 's|@BINDIR@|$(PREFIX)/bin|' packaging/outboard@.service >$(lib)/systemd/system/outboard@.service
	chmod 644 $(lib)/systemd/system/outboard@.service
	install -m 644 packaging/sysusers.conf $(lib)/sysusers.d/outboard.conf
	install -m 644 packaging/tmpfiles.conf $(lib)/tmpfiles.d/outboard.conf
	install -m 644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/*.md $(doc)/
	install -m 644 docs/engine.toml examples/plan.toml $(doc)/examples/
	install -D -m 644 packaging/grafana.json $(share)/outboard/grafana.json
	rm -rf $(generated)

uninstall: ## Remove what `make install` with the same PREFIX and DESTDIR put there
	rm -f $(bin)/outboard $(share)/man/man1/outboard.1 $(share)/man/man1/outboard-*.1 \
		$(share)/man/man3/ob_*.3 $(share)/man/man3/tcps_*.3 \
		$(share)/man/man3/outboard.h.3 $(share)/man/man3/tcps.h.3 $(share)/man/man5/outboard.toml.5 \
		$(share)/bash-completion/completions/outboard $(share)/zsh/vendor-completions/_outboard \
		$(share)/fish/vendor_completions.d/outboard.fish $(lib)/systemd/system/outboard@.service \
		$(lib)/sysusers.d/outboard.conf $(lib)/tmpfiles.d/outboard.conf
	rm -f $(include)/outboard.h $(include)/tcps.h $(libdir)/liboutboard.a $(libdir)/liboutboard.so \
		$(libdir)/liboutboard.so.0 $(libdir)/pkgconfig/outboard.pc
	rm -rf $(lib)/outboard $(share)/outboard $(doc)

deb: build ## Build a Debian package into target/debian (needs debhelper)
	@$(BUILT)/outboard --version | grep '(' || { \
		echo "$(BUILT)/outboard does not say of which commit it is: build in a checkout, or set OUTBOARD_COMMIT" >&2; \
		exit 1; }
	rm -rf $(TARGET)/debian
	mkdir -p $(TARGET)/debian
	BUILT=$(BUILT) debian/rules binary
	debian/rules clean
	@ls $(TARGET)/debian/*.deb

pages: ## Write docs/commands anew, from the definitions of the commands
	$(CARGO) run --quiet -- generate $(generated)
	cp $(generated)/commands/*.md docs/commands/
	rm -rf $(generated)

site: ## Build the documentation as a site with search into target/site (needs mdbook)
	@command -v mdbook >/dev/null || { echo "mdbook is not there: cargo install mdbook" >&2; exit 1; }
	rm -rf $(TARGET)/book $(TARGET)/site && mkdir -p $(TARGET) && cp -r docs $(TARGET)/book
	cd docs && for page in decisions/[a-z]*.md; do \
		sed -n "1s|^# \(.*\)|  - [\1]($$page)|p" $$page; done >>$(abspath $(TARGET))/book/SUMMARY.md
	mdbook build --dest-dir $(abspath $(TARGET))/site $(TARGET)/book

install-deps: ## Install the Debian packages that are missing (as root), or say how
	@scripts/deps.sh lab

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
