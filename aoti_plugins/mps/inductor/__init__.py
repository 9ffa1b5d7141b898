"""What touches Inductor's insides for Apple GPUs, and Metal source as text."""
