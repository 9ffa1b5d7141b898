"""Whose programs this process runs."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable, Sequence

from aoti_plugins.errors import SignatureError
from aoti_plugins.runtime._libraries import core_error, core_function
from aoti_plugins.signing.file_signature import FileSignature, read_file_signature
from aoti_plugins.signing.keys import PublicKey, public_keys

_RIGHT, _WRONG = 0, 1

_lock = threading.Lock()
_file_demands: list[tuple[bytes, ...]] = []


def require_signatures(keys: Iterable[PublicKey], *, whole_files: bool = False) -> None:
    """Run only programs that were signed by one of these keys, from here on in this process.

    The demand is the native library's: it holds for ``Program``, for ExecuTorch's own runtime and
    for methods of programs that are loaded already. Further calls are further demands, all of which
    a program has to meet; there is no way back. Programs of ExecuTorch's own AOTInductor backends
    have no signatures and are refused. ``docs/security.md`` says what a signature covers.

    Args:
        keys: public keys, of which one suffices: paths of PEM files, or 32 bytes each.
        whole_files: also demand a signature by one of the keys over the program's file, and over
            each data file, beside it in ``<file>.sig``. Looked at by ``Program``, which then takes
            no bytes; ExecuTorch's own runtime does not look.

    Raises:
        SignatureError: there is no key, or a key file cannot be used. Nothing is demanded then: a
            process that goes on runs any program.
        RuntimeLoadError: the native libraries are missing or do not load.

    Example:
        >>> from aoti_plugins.runtime import Program, require_signatures
        >>> require_signatures(["release.pub.pem"])         # doctest: +SKIP
        >>> Program("model.pte").method()                   # doctest: +SKIP
    """
    wanted = public_keys(keys)
    text, size = ctypes.c_char_p, ctypes.c_size_t
    function = core_function("aotip_require_signatures", ctypes.c_int32, text, size)
    if whole_files:
        with _lock:
            _file_demands.append(wanted)
    if function(b"".join(wanted), len(wanted)) != 0:
        raise MemoryError("the keys cannot be noted; no program is run any more")


def is_right_signature(key: bytes, message: bytes, signature: bytes) -> bool:
    """Check a signature of Ed25519 as the delegates do.

    Raises:
        SignatureError: it cannot be checked; the message says what to install.
    """
    text, size = ctypes.c_char_p, ctypes.c_size_t
    function = core_function("aotip_verify_signature", ctypes.c_int32, text, text, size, text)
    code = function(key, message, len(message), signature)
    if code in (_RIGHT, _WRONG):
        return bool(code == _RIGHT)
    raise SignatureError(core_error("signatures cannot be checked"))


def check_files(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Check the signatures of whole files, where this process demands them.

    Raises:
        SignatureError: a file lacks one, or is not the one that was signed.
    """
    with _lock:
        demands = list(_file_demands)
    for path in paths if demands else ():
        signed = read_file_signature(path)
        check_unchanged(path, signed)
        for keys in demands:
            check_signed_by(path, signed, keys)


def check_no_bytes_demanded() -> None:
    """Refuse a program that is no file, where this process demands signatures over whole files."""
    if _file_demands:
        raise SignatureError(
            "this process runs programs of signed files only (require_signatures with whole_files),"
            " and bytes have no signature beside them; load the program from its path"
        )


def check_unchanged(path: str | os.PathLike[str], signed: FileSignature) -> None:
    """Compare a file with what its signature says.

    Raises:
        SignatureError: it has other bytes.
    """
    found = FileSignature.of(path)
    if found.message != signed.message:
        raise SignatureError(
            f"{os.fspath(path)!r} is not the file that was signed: it has {found.nbytes} bytes with"
            f" SHA-256 {found.sha256.hex()}, signed were {signed.nbytes} with "
            f"{signed.sha256.hex()}. Get it again from who signed it."
        )


def check_signed_by(
    path: str | os.PathLike[str], signed: FileSignature, keys: Sequence[bytes]
) -> None:
    """Check that one of some keys signed a file.

    Raises:
        SignatureError: none did, or a signature is wrong.
    """
    for key, signature in signed.signatures:
        if key in keys:
            if not is_right_signature(key, signed.message, signature):
                raise SignatureError(f"the signature of {os.fspath(path)!r} is wrong")
            return
    raise SignatureError(
        f"{os.fspath(path)!r} is signed by {len(signed.signatures)} keys, of which none is one of "
        f"the {len(keys)} that are trusted"
    )
