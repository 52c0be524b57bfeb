# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings as files that other tools open."""
