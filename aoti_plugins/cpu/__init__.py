"""The CPU delegate: needs no accelerator and no library beyond our runtime."""
