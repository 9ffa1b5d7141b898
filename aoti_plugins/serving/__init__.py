"""Language models behind ExecuTorch's OpenAI server: in one process, or as a worker of its own."""
