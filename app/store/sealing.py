"""How secrets are kept: encrypted with Fernet, by keys of the environment or of a file beside the data.

Law of this room: whoever has the database alone has no secret. A key is made once, when the first secret is stored,
and never replaced: what it sealed could not be read any more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import typing as t
from pathlib import Path

from app.store.errors import StoreFailed

if t.TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = logging.getLogger("studio.store")

KEY_FILE = "secrets.key"


class SecretsLocked(StoreFailed):
    """Secrets are stored and the key that opens them is not here."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "secrets_locked")


class Box:
    """Seals bytes, and opens what any box of these keys has sealed."""

    __slots__ = ("_keys",)

    def __init__(self, keys: MultiFernet) -> None:
        self._keys = keys

    def seal(self, data: bytes) -> bytes:
        """``data`` encrypted."""
        return self._keys.encrypt(data)

    def open(self, sealed: bytes) -> bytes:
        """What was sealed.

        :raises SecretsLocked: with none of the keys that are here.
        """
        from cryptography.fernet import InvalidToken

        try:
            return self._keys.decrypt(sealed)
        except InvalidToken:
            raise SecretsLocked("What was sealed cannot be opened with the keys that are here.") from None


class Sealer:
    """Seals with the first key, opens with any.

    :param configured: ``STUDIO_SECRETS_KEY``: Fernet keys, the newest first.
    :param folder: where the key file is when none are configured.
    """

    def __init__(self, configured: tuple[str, ...], folder: Path) -> None:
        self._configured = configured
        self._file = folder / KEY_FILE
        self._keys: MultiFernet | None = None

    def seal(self, value: str, *, make_key: bool) -> bytes:
        """``value`` encrypted.

        :param make_key: nothing is sealed yet, so that a key may be made where there is none.
        :raises SecretsLocked: there is no key, or it cannot be read.
        """
        if make_key and not self._configured and not self._file.exists():
            self._make_file()
        return self._fernet().encrypt(value.encode("utf-8", "surrogatepass"))

    def open(self, name: str, sealed: bytes) -> str:
        """The value that was sealed.

        :raises SecretsLocked: none of the keys is the one it was sealed with.
        """
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet().decrypt(sealed).decode("utf-8", "surrogatepass")
        except InvalidToken:
            raise SecretsLocked(f"The secret {name} was sealed with another key. {self._cure()}") from None

    def derived(self, purpose: str, *, make_key: bool) -> tuple[bytes, ...]:
        """Keys of 32 bytes for another purpose, one for each key there is, the newest first (HKDF, RFC 5869).

        :param make_key: as of :meth:`seal`.
        :raises SecretsLocked: as of :meth:`seal`.
        """
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        if make_key and not self._configured and not self._file.exists():
            self._make_file()
        self._fernet()  # says what is wrong with them
        texts = self._configured or self._from_file()
        info = f"studio {purpose}".encode()
        return tuple(HKDF(SHA256(), 32, None, info).derive(text.encode()) for text in texts)

    def box(self, *, make_key: bool) -> Box:
        """For bytes that are sealed for a while.

        :param make_key: as of :meth:`seal`.
        :raises SecretsLocked: as of :meth:`seal`.
        """
        if make_key and not self._configured and not self._file.exists():
            self._make_file()
        return Box(self._fernet())

    def renew(self, name: str, sealed: bytes) -> bytes:
        """The same value sealed with the first key.

        :raises SecretsLocked: see :meth:`open`.
        """
        return self._fernet().encrypt(self.open(name, sealed).encode("utf-8", "surrogatepass"))

    def _fernet(self) -> MultiFernet:
        if self._keys is None:
            from cryptography.fernet import Fernet, MultiFernet

            texts = self._configured or self._from_file()
            try:
                self._keys = MultiFernet([Fernet(text) for text in texts])
            except ValueError:
                raise SecretsLocked(f"There is no Fernet key in {self._file}. {self._cure()}") from None
        return self._keys

    def _from_file(self) -> tuple[str, ...]:
        try:
            if self._file.stat().st_mode & 0o077:
                log.warning("others may read the key of the secrets; cure: chmod 600 %s", self._file)
            return (self._file.read_text(encoding="ascii").strip(),)
        except FileNotFoundError:
            raise SecretsLocked(f"Secrets are stored, but their key is not here. {self._cure()}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise SecretsLocked(f"The key of the secrets, {self._file}, cannot be read: {error}.") from None

    def _cure(self) -> str:
        return (
            f"Set STUDIO_SECRETS_KEY to the key they were sealed with (by default it is in {self._file} where the "
            "first one was stored), or remove them with `studio secret remove` and store them again."
        )

    def _make_file(self) -> None:
        """Make the key file, whole or not at all, for its owner's eyes only; another process may be faster."""
        from cryptography.fernet import Fernet

        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._file.parent, prefix=f".{KEY_FILE}.")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(Fernet.generate_key() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(name, self._file)
        finally:
            os.unlink(name)
