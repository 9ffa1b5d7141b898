"""A plugin whose native part was never installed."""

import acme_native_that_is_missing  # noqa: F401
