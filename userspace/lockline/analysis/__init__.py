# SPDX-License-Identifier: GPL-2.0-or-later
"""From a recording to values.  Nothing here prints, or needs root or the machine that was recorded."""
