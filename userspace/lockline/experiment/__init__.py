# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment on a live load: a suspected cause taken away and put back, in slices in random order."""
