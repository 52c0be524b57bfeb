# SPDX-License-Identifier: GPL-2.0-or-later
"""What every layer uses, and knows nothing of lockline's data."""
