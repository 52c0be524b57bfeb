# SPDX-License-Identifier: GPL-2.0-or-later
"""The documents that lockline prints as JSON, each described by dataclasses: lockline.render.walker."""
