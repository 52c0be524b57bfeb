# lockline.  `make`, `make demo` (as root), `make test`, `make bench`, `make lint`, `make install`, `make clean`.
# `make CROSS=arm64` builds the collector for arm64 into build/arm64.

CROSS ?=
ifeq ($(CROSS),arm64)
ARCH := arm64
BUILD := build/arm64
CC := aarch64-linux-gnu-gcc
PKG_CONFIG ?= aarch64-linux-gnu-pkg-config
else
ARCH := $(if $(filter aarch64,$(shell uname -m)),arm64,x86)
BUILD := build
endif

CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
VERSION := $(shell cat VERSION)
PREFIX ?= /usr/local

BPF_SOURCES := $(wildcard bpf/*.bpf.c)
BPF_HEADERS := $(wildcard bpf/*.h) vmlinux.h
BPF_OBJECTS := $(BPF_SOURCES:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o)
BPF_CFLAGS := -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -Wall -Wextra -Werror -Wno-missing-declarations \
	-Wno-unused-parameter -I. -Ibpf -I$(BUILD)/bpf

COLLECTOR_SOURCES := $(wildcard userspace/collector/*.c)
COLLECTOR_OBJECTS := $(COLLECTOR_SOURCES:userspace/collector/%.c=$(BUILD)/collector/%.o)
CFLAGS ?= -O2 -g
COLLECTOR_CFLAGS := -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -D_GNU_SOURCE \
	-DLOCKLINE_VERSION='"$(VERSION)"' -I$(BUILD)/bpf -I$(BUILD)/collector -I.
# Debian 13's libelf and libdw want zstd; the order is that of a static link.
COLLECTOR_LIBS := -lbpf -ldw -lelf -lsqlite3 -lz -llzma -lbz2 -lzstd -lm -lpthread -ldl

.DELETE_ON_ERROR:
.PHONY: all
all: $(BUILD)/bin/lockline-collect

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	@mkdir -p $(@D)
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(BUILD)/bpf/lockline.bpf.o: $(BPF_OBJECTS)
	$(BPFTOOL) gen object $@ $^

$(BUILD)/bpf/lockline.skel.h: $(BUILD)/bpf/lockline.bpf.o
	$(BPFTOOL) gen skeleton $< name lockline_bpf > $@

$(BUILD)/collector/recording_schema.h: userspace/collector/recording.sql
	@mkdir -p $(@D)
	scripts/embed-text recording_schema $< > $@

$(BUILD)/collector/%.o: userspace/collector/%.c $(wildcard userspace/collector/*.h) $(BUILD)/bpf/lockline.skel.h $(BUILD)/collector/recording_schema.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(COLLECTOR_CFLAGS) -c $< -o $@

$(BUILD)/bin/lockline-collect: $(COLLECTOR_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -static -o $@ $^ $(COLLECTOR_LIBS)

.PHONY: clean
clean:
	rm -rf build
