# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of many hosts in one directory, as Parquet, and what they say together."""
