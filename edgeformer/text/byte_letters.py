"""The visible letters that a byte-level vocabulary writes for bytes: "Ġ" is a space."""

from typing import Dict

_VISIBLE = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))


def _letters() -> Dict[int, str]:
    letters = {byte: chr(byte) for byte in _VISIBLE}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(0x100 + len(letters) - len(_VISIBLE))
    return letters


LETTER_OF = _letters()
# From byte letters to the latin-1 characters of their bytes; what is no byte letter must not pass.
_TO_LATIN1 = dict.fromkeys(range(256), "\uffff")
_TO_LATIN1.update((ord(letter), chr(byte)) for byte, letter in LETTER_OF.items())


def spelled(text: str) -> str:
    """The UTF-8 of text in byte letters."""
    return text.encode("utf-8").decode("latin-1").translate(LETTER_OF)


def spelled_bytes(token: str) -> bytes:
    """The bytes that a token spells; its own UTF-8 if it holds anything but byte letters."""
    try:
        return token.translate(_TO_LATIN1).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8")
