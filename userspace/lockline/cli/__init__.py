# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: one module for each command."""
