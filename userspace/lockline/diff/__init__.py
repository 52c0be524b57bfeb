# SPDX-License-Identifier: GPL-2.0-or-later
"""Before and after: benchmark samples, recordings of waits, memory accesses."""
