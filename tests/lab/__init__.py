# SPDX-License-Identifier: GPL-2.0-or-later
"""A laboratory of known truth: programs in a model of caches, sampled as PMUs do, written as users have it."""
