"""Signatures of programs: who signs, what is signed, what is compared with it.

``docs/security.md`` says what they are worth. Signing needs PyPI's package ``cryptography`` (extra
``sign``); checking is the native library's.
"""
