"""GGUF files: language models in one file, with weights of few bits.

``file`` reads one, ``configuration`` says what model it is, ``tensors`` where its weights belong,
``weights`` what they become, ``tokenizer`` how it cuts texts; ``checkpoint`` is all of it.
"""
