# SPDX-License-Identifier: GPL-2.0-or-later
"""From values to text and JSON."""
