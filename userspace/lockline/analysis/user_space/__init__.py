# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of programs: which futexes are one, of what make, who waits for it, where, and whether it is contended."""
