# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: one module for each command."""

import gc

# So many objects are made before Python looks for cycles.  Reports have next to none, and at Python's 700 the search
# takes a tenth of their time, and of that of loading what they need.
gc.set_threshold(50_000)
