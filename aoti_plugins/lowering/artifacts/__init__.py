"""What a lowered partition is stored as. Today: a shared object per target."""
