"""What touches Inductor's insides for CPUs: one concern per module."""
