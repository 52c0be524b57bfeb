# SPDX-License-Identifier: GPL-2.0-or-later
"""A live view of lock waits: what is shown follows from a state and a report, and is drawn elsewhere."""
