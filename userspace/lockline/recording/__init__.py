# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings: their tables, as rows; all SQL is here."""
