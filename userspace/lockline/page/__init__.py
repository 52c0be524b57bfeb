# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports as one HTML file each, which loads nothing."""
