# SPDX-License-Identifier: GPL-2.0-or-later
#
#	make			build/bin/lockline and build/bin/lockline-collect
#	make demo		as root: install what is missing, build, run `lockline demo`
#	make test		install what is missing, build, run the tests that need no emulator
#	make test-page		pages in a browser, and exports read by others' programs
#	make test-spark		the fleet's queries on Spark and on DuckDB: the same rows
#	make test-laboratories	statistics of many made cases, corpora, benchmarks, real servers; 5 minutes
#	make test-kernels	the tests in emulated guests of other kernels; KERNELS="trixie bookworm-rt" selects
#	make soak		lockline attached and detached under load, in guests of every kernel; KERNELS= selects
#	make soak-day		as root: a recording beside a load of which nothing stays, for MINUTES (60)
#	make fuzz		every fuzzer for FUZZ_SECONDS (60)
#	make bench		what lockline costs, beside the tools installed here
#	make bench-path		what each path of a wait through its programs costs, warm and cold
#	make bench-servers	what it costs seven servers, under load
#	make bench-c2c		what reading samples of cache lines costs, beside perf
#	make bench-fleet	what adding recordings to a fleet costs, and its reports
#	make bench-guest	what a wait costs on other kernels, in instructions that emulated guests count
#	make bench-watch	what watching lines costs the load that is watched
#	make manuals		build/help/*.1, from the tables of options; `make all` makes them too
#	make completions	build/help: completion for bash, zsh and fish, by shtab
#	make page		what draws the charts of `lockline report --html`: build/page/charts.js, by npm
#	make schemas		docs/*-schema.json, from the dataclasses of lockline.render.documents
#	make lab		how right verdicts on cache lines are, on programs of known truth; CASES=20000 SEED=fresh
#	make lab-incidents	whether `lockline why` finds causes that were planted; as root
#	make lab-what-if	what is gained when a cause is taken away, beside what is foretold; as root
#	make lab-languages	what `record --futex` makes of locks in eight languages; as root
#	make pictures		docs/pictures, of recordings that the tests generate
#	make lint		ruff, mypy, import-linter, clang-format, shellcheck
#	make workloads		the programs of tests/workloads, whose waits are known
#	make install		PREFIX (default /usr/local), DESTDIR
#	make dist		build/dist: tarball, wheel, Debian package, checksums, SBOM; DIST_ARCHES="native arm64" for both
#	make test-dist		as root: each installed in a new Debian 12 and 13, and used
#	make test-service	as root: lockline.service in a new Debian that systemd boots
#	make test-containers	as root: two containers of podman that wait for each other, named
#	make test-metrics	as root: the exporter under load, scraped by Prometheus for five minutes
#	make CROSS=arm64	build/arm64/bin/lockline-collect
#	make clean

ifeq ($(CROSS),arm64)
ARCH := arm64
BUILD := build/arm64
CC := aarch64-linux-gnu-gcc
else ifeq ($(CROSS),)
ARCH := $(if $(filter aarch64,$(shell uname -m)),arm64,x86)
BUILD := build
else
$(error CROSS=$(CROSS) is not known; CROSS=arm64 is)
endif

CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
INSTALL ?= install
VERSION := $(shell cat VERSION)
PREFIX ?= /usr/local
PYTEST_OPTIONS ?=
export PYTEST_OPTIONS
FUZZ_SECONDS ?= 60
MINUTES ?= 60
# As many jobs as CPUs, unless make was called with -j.
PARALLEL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

BPF_SOURCES := $(wildcard bpf/*.bpf.c)
BPF_OBJECTS := $(BPF_SOURCES:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o)
include bpf/flags.mk
BPF_CFLAGS := $(BPF_CODE) -D__TARGET_ARCH_$(ARCH) \
	-Wall -Wextra -Werror -Wno-missing-declarations \
	-Wno-unused-parameter -I. -Ibpf

COLLECTOR_SOURCES := $(sort $(wildcard userspace/collector/*.c userspace/collector/*/*.c))
COLLECTOR_OBJECTS := $(COLLECTOR_SOURCES:userspace/collector/%.c=$(BUILD)/collector/%.o)
COLLECTOR_HEADERS := $(BUILD)/bpf/lockline.skel.h $(BUILD)/collector/recording_schema.h $(BUILD)/collector/recording_put.h \
	$(BUILD)/collector/syscall_names.h
CFLAGS ?= -O2 -g
# What makes a fault harder to use; CET and its like where the compiler has them.  FORTIFY needs an optimizer.
HARDENING := -fPIE -fstack-protector-strong -fstack-clash-protection $(if $(filter arm64,$(ARCH)),-mbranch-protection=standard,-fcf-protection=full) \
	$(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
COLLECTOR_CFLAGS := $(HARDENING) -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -D_GNU_SOURCE \
	-DLOCKLINE_VERSION='"$(VERSION)"' -I$(BUILD)/bpf -I$(BUILD)/collector -Iuserspace/collector -I.
# The order is that of a static link; Debian 13's libelf and libdw want zstd.  --wrap: names/shared_btf.c.
COLLECTOR_LIBS := -Wl,--wrap=btf__load_vmlinux_btf,--wrap=btf__free -lbpf -lcapstone -liberty -ldw -lelf -lsqlite3 -lz -llzma -lbz2 -lzstd -lm -lpthread -ldl

LAUNCHER := $(wildcard scripts/lockline-launcher)
PYTHON_SCRIPTS := $(shell grep -slE '^\#!.*python3$$' scripts/*)
SHELL_SCRIPTS := $(shell grep -slE '^\#!.*[/ ](ba)?sh$$' scripts/* .ci/run packaging/debian/* packaging/kubernetes/*)
C_FILES := $(wildcard bpf/*.[ch] userspace/collector/*.[ch] userspace/collector/*/*.[ch] tests/*/*.[ch] tests/vm/*/*.[ch])

.DELETE_ON_ERROR:
.PHONY: all
all: $(BUILD)/bin/lockline-collect
ifeq ($(CROSS),)
all: $(LAUNCHER:scripts/lockline-launcher=$(BUILD)/bin/lockline)
endif

# Headers are followed by the compilers' own lists (-MMD); those that are made come first.
$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c Makefile
	@mkdir -p $(@D)
	$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/bpf/lockline.bpf.o: $(BPF_OBJECTS)
	$(BPFTOOL) gen object $@ $^

$(BUILD)/bpf/lockline.skel.h: $(BUILD)/bpf/lockline.bpf.o
	$(BPFTOOL) gen skeleton $< name lockline_bpf > $@

$(BUILD)/collector/recording_schema.h: userspace/collector/recording/recording.sql scripts/embed-text
	@mkdir -p $(@D)
	scripts/embed-text recording_schema $< > $@

$(BUILD)/collector/recording_put.h: userspace/collector/recording/recording.sql scripts/make-put-functions
	@mkdir -p $(@D)
	scripts/make-put-functions $< > $@

$(BUILD)/collector/syscall_names.h: scripts/make-syscall-names
	@mkdir -p $(@D)
	echo '#include <asm/unistd.h>' | $(CC) -dM -E - | scripts/make-syscall-names > $@

$(BUILD)/collector/%.o: userspace/collector/%.c Makefile VERSION | $(COLLECTOR_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(COLLECTOR_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/bin/lockline-collect: $(COLLECTOR_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -static-pie -Wl,-z,relro,-z,now,-z,noexecstack -o $@ $^ $(COLLECTOR_LIBS)

$(BUILD)/bin/lockline: scripts/lockline-launcher
	@mkdir -p $(@D)
	$(INSTALL) -m 755 $< $@

-include $(BPF_OBJECTS:.o=.d) $(COLLECTOR_OBJECTS:.o=.d)

# Manual pages and completion: what they tell comes from the parsers.
HELP := $(BUILD)/help
HELP_FROM := scripts/make-help $(BUILD)/bin/lockline-collect VERSION $(wildcard docs/manual/*.man) \
	$(shell find userspace/lockline -name '*.py')
ifeq ($(CROSS),)
all: $(HELP)/manuals
endif

$(HELP)/manuals: $(HELP_FROM)
	@mkdir -p $(@D)
	python3 scripts/make-help manuals $(@D)
	@touch $@

$(HELP)/completions: $(HELP_FROM) requirements-dev.txt
	@mkdir -p $(@D)
	build/venv/bin/python scripts/make-help completions $(@D)
	@touch $@

.PHONY: manuals completions
manuals: $(HELP)/manuals
completions:
	scripts/setup lint
	$(MAKE) $(HELP)/completions

# What is installed by scripts/setup is known only to a make that starts after it.
.PHONY: demo
demo:
	scripts/setup demo
	$(MAKE) all
	build/bin/lockline demo

.PHONY: workloads
workloads: tests/workloads

# Beside the compilers: pip works for half a minute on one CPU.
.PHONY: tools
tools:
	scripts/setup tools

# `make test` runs these.
.PHONY: test-programs
TEST_PROGRAMS := tests/workloads tests/bpf tests/names tests/unit
test-programs: $(TEST_PROGRAMS)

.PHONY: $(TEST_PROGRAMS) tests/fuzz tests/vm/coherence
$(TEST_PROGRAMS) tests/fuzz tests/vm/coherence: all
	$(MAKE) -C $@ BUILD=$(BUILD)
# It is linked with the objects of the other.
tests/names: tests/unit

.PHONY: test
test:
	scripts/setup --packages test
	$(MAKE) $(PARALLEL) tools all test-programs
	scripts/run-tests test

.PHONY: test-laboratories
test-laboratories:
	scripts/setup --packages test
	$(MAKE) $(PARALLEL) tools all test-programs tests/fuzz
	scripts/run-tests test-laboratories

# What the tests of pages take from npm.
$(BUILD)/page-test/node_modules: tests/page/package.json tests/page/package-lock.json
	@mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: test-page
test-page:
	scripts/setup page
	$(MAKE) $(PARALLEL) all page $(BUILD)/page-test/node_modules
	scripts/run-tests test-page

.PHONY: test-spark
test-spark:
	scripts/setup spark
	scripts/run-tests test-spark

.PHONY: test-kernels
test-kernels:
	scripts/setup kernels
	$(MAKE) $(PARALLEL) all tests/workloads tests/names tests/vm/coherence
	scripts/run-tests test-kernels

.PHONY: soak
soak:
	scripts/setup kernels
	$(MAKE) $(PARALLEL) all workloads
	$(MAKE) $(PARALLEL) CROSS=arm64
	$(MAKE) $(PARALLEL) -C tests/workloads CROSS=arm64
	build/venv/bin/python scripts/soak

.PHONY: soak-day
soak-day:
	scripts/setup test
	$(MAKE) $(PARALLEL) all workloads
	build/venv/bin/python scripts/soak-day --minutes $(MINUTES)

.PHONY: fuzz
fuzz:
	scripts/setup fuzz
	$(MAKE) $(PARALLEL) all tests/fuzz
	scripts/fuzz $(FUZZ_SECONDS)

.PHONY: bench
bench:
	scripts/setup bench
	$(MAKE) $(PARALLEL) all workloads tests/bpf
	build/venv/bin/python scripts/bench

.PHONY: bench-path
bench-path:
	scripts/setup bench
	$(MAKE) $(PARALLEL) all tests/bpf
	build/tests/path_bench

.PHONY: bench-watch
bench-watch:
	scripts/setup bench
	$(MAKE) $(PARALLEL) all workloads
	build/venv/bin/python scripts/bench-watch

.PHONY: bench-servers
bench-servers:
	scripts/setup bench
	$(MAKE) $(PARALLEL) all
	build/venv/bin/python scripts/bench-servers

.PHONY: bench-guest
bench-guest:
	scripts/setup kernels
	$(MAKE) $(PARALLEL) all tests/workloads tests/bpf tests/vm/coherence
	build/venv/bin/python scripts/bench-guest

.PHONY: bench-fleet
bench-fleet:
	scripts/setup test
	nice build/venv/bin/python scripts/bench-fleet

.PHONY: bench-c2c
bench-c2c:
	scripts/setup bench
	$(MAKE) $(PARALLEL) all
	build/venv/bin/python scripts/bench-c2c

# What `record --futex` makes of locks in eight languages; as root.
.PHONY: lab-languages
lab-languages:
	scripts/setup languages
	$(MAKE) $(PARALLEL) all
	build/venv/bin/python tests/languages/laboratory.py $(PARTS)

# Programs with a planted cause, in random order; INCIDENTS= names some of them.
.PHONY: lab-incidents
lab-incidents:
	scripts/setup test
	$(MAKE) $(PARALLEL) all workloads
	build/venv/bin/python tests/incidents $(INCIDENTS)

# What is gained when a cause is taken away for real, beside the bound and `lockline experiment`; as root.
.PHONY: lab-what-if
lab-what-if:
	scripts/setup test
	$(MAKE) $(PARALLEL) all workloads
	build/venv/bin/python tests/whatif $(WHATIF)

# How right the verdicts on cache lines are; the tables of docs/c2c.md.  CASES: programs in one kind of input each;
# SEED: `fresh`, or the first seed of a run that is to be repeated.
CASES ?= 20000
SEED ?= fresh
.PHONY: lab
lab:
	scripts/setup test
	$(MAKE) $(PARALLEL) all
	build/venv/bin/python tests/lab --cases $(CASES) --seed $(SEED) --docs docs/c2c.md $(LAB)

# One target for each check, so that `make -k lint` runs the others where one fails.
.PHONY: lint
LINT := lint-ruff lint-format lint-mypy lint-layers lint-rooms lint-clang-format lint-shellcheck
.PHONY: $(LINT)
lint:
	scripts/setup lint
	$(MAKE) -k $(LINT)

lint-ruff:
	build/venv/bin/python -m ruff check . $(PYTHON_SCRIPTS)

lint-format:
	build/venv/bin/python -m ruff format --check . $(PYTHON_SCRIPTS)

lint-mypy:
	build/venv/bin/python -m mypy --strict userspace/lockline
	build/venv/bin/python -m mypy --strict --scripts-are-modules $(PYTHON_SCRIPTS)

lint-layers:
	cd userspace && ../build/venv/bin/lint-imports --config ../pyproject.toml --no-cache

lint-clang-format:
	clang-format --dry-run -Werror $(C_FILES)

lint-rooms: all
	scripts/check-rooms

lint-shellcheck:
	shellcheck $(SHELL_SCRIPTS)

# The charts of pages.  Without npm pages have drawings that do not move, and everything else works.
PAGE := userspace/page
.PHONY: page
page:
	@command -v npm >/dev/null || { echo "make page: npm is not installed; on Debian: apt-get install npm" >&2; exit 1; }
	$(MAKE) $(BUILD)/page/charts.js

$(BUILD)/page/node_modules: $(PAGE)/package.json $(PAGE)/package-lock.json
	@mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && npm ci --silent --no-audit --no-fund
	@touch $@

$(BUILD)/page/charts.js: $(PAGE)/src/charts.js $(BUILD)/page/node_modules
	NODE_PATH=$(BUILD)/page/node_modules $(BUILD)/page/node_modules/.bin/esbuild $< --outfile=$@ --bundle --minify \
		--format=iife --target=es2021 --charset=ascii --legal-comments=inline --log-level=warning

.PHONY: pictures
pictures:
	scripts/make-pictures

.PHONY: schemas
schemas:
	scripts/make-schemas

# Whoever runs it may not write there: Python would compile every module again at each start.
.PHONY: install
install: all
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/lockline $(DESTDIR)$(PREFIX)/share/man/man1
	$(INSTALL) -m 755 $(BUILD)/bin/lockline-collect $(BUILD)/bin/lockline $(DESTDIR)$(PREFIX)/bin
	cd userspace && find lockline -name '*.py' -exec $(INSTALL) -D -m 644 {} $(abspath $(DESTDIR)$(PREFIX))/lib/lockline/{} \;
	$(INSTALL) -m 644 VERSION $(DESTDIR)$(PREFIX)/lib/lockline/lockline/VERSION
	$(INSTALL) -m 644 userspace/collector/recording/recording.sql $(DESTDIR)$(PREFIX)/lib/lockline/lockline/recording/recording.sql
	$(INSTALL) -D -m 644 userspace/lockline/atlas/locks.json $(DESTDIR)$(PREFIX)/lib/lockline/lockline/atlas/locks.json
	$(INSTALL) -m 644 userspace/lockline/page/page.css userspace/lockline/page/page.js $(DESTDIR)$(PREFIX)/lib/lockline/lockline/page
	test ! -f $(BUILD)/page/charts.js || $(INSTALL) -m 644 $(BUILD)/page/charts.js $(DESTDIR)$(PREFIX)/lib/lockline/lockline/page
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/lib/lockline/lockline/fleet/sql
	$(INSTALL) -m 644 userspace/lockline/fleet/sql/*.sql $(DESTDIR)$(PREFIX)/lib/lockline/lockline/fleet/sql
	$(INSTALL) -m 644 docs/lockline.1 $(HELP)/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	test ! -f $(HELP)/completions || scripts/install-completions $(HELP) $(DESTDIR)$(PREFIX)/share
	$(if $(DESTDIR),,python3 -m compileall -q $(PREFIX)/lib/lockline)

.PHONY: dist
DIST_ARCHES ?= native
DIST_COLLECTORS := $(if $(filter native,$(DIST_ARCHES)),build/bin/lockline-collect) \
	$(if $(filter arm64,$(DIST_ARCHES)),build/arm64/bin/lockline-collect)
dist: all
	$(if $(filter arm64,$(DIST_ARCHES)),scripts/setup cross && $(MAKE) CROSS=arm64)
	$(MAKE) completions
	rm -rf build/dist-stage
	$(MAKE) install PREFIX=/usr DESTDIR=build/dist-stage
	scripts/make-dist build/dist-stage $(DIST_COLLECTORS)

.PHONY: test-dist
test-dist:
	scripts/setup dist
	$(MAKE) $(PARALLEL) dist
	scripts/check-dist

# lockline beside the programs of others.
CHECKS := test-service test-containers test-metrics
.PHONY: $(CHECKS)
test-service test-metrics: NEEDS := dist
test-containers: NEEDS := containers
test-service: BUILT := dist
$(CHECKS): test-%:
	scripts/setup $(NEEDS)
	$(MAKE) $(PARALLEL) $(or $(BUILT),all)
	scripts/check-$*

.PHONY: clean
clean:
	rm -rf build
