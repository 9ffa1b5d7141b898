"""What touches Inductor's and Triton's insides for NVIDIA GPUs: one concern per module."""
