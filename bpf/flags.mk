# SPDX-License-Identifier: GPL-2.0-or-later
# How programs for the kernel are compiled, in the product and in the tests of its paths.  Code in the order in which it
# is written: a common wait runs straight on (wait.bpf.h).
BPF_CODE := -g -O2 -target bpf -mcpu=v3 -mllvm -disable-block-placement
