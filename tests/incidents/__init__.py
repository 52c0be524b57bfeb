# SPDX-License-Identifier: GPL-2.0-or-later
"""The laboratory of incidents: whether `lockline why` finds causes that were planted."""
