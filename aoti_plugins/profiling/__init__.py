"""Where the time of a call goes: kernels with what they are from, as data, a trace and a page."""
