# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched cache lines: every access in short windows, scaled to the whole time."""
