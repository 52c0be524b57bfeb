# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lockline why` looks at next, what that proves, and when to stop: pure functions that start nothing."""
