# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory accesses by cache line: imports of perf c2c data and texts, and what is made of them."""
