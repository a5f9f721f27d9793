"""Write edgeformer/text/unicode_categories.py from what Hugging Face `tokenizers` does today.

    .venv/bin/python -m tests.text.make_unicode_categories > unicode_categories.py
    mv unicode_categories.py edgeformer/text/

Every code point is put through the ByteLevel pre-tokenizer between probes of known kind, so the
table is a measurement of the reference, not of some Python's own Unicode data. Run it again when
tests/nn/test_text_reference.py says that a newer `tokenizers` has moved on.
"""

import textwrap

from tokenizers import __version__, pre_tokenizers

# Not measurable; found by comparing the measured ranges with unicodedata2 16.0.0: no difference.
UNICODE_VERSION = "16.0"
CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)

HEADER = r'''r"""Which code points are letters (\p{L}), numbers (\p{N}) and white space (\s).

Written by tests/text/make_unicode_categories.py, measured on tokenizers %s: Unicode %s.
Shipped because Python 3.6 knows Unicode 9 and every Python another version: with `unicodedata`
the ids of a text would depend on the machine. Each table holds pairs of numbers in base 36:
how many code points to skip, then how many are in.
"""

UNICODE_VERSION = "%s"'''


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def measured_class(character):
    """Return "L", "N", "S" (white space) or "P" (all else), as the reference treats a character."""
    around = reference_cuts("a" + character + "1")
    if around == [0, 2]:
        return "L"
    if around == [0, 1] and character != " ":
        return "N"
    return "P" if reference_cuts("!" + character + "!") == [0] else "S"


def reference_cuts(text):
    """Where the reference begins a word."""
    return [start for _, (start, _) in BYTE_LEVEL.pre_tokenize_str(text)]


def packed(classes, wanted):
    """Pairs of base-36 numbers: code points to skip, then how many are of the wanted class."""
    numbers = [0, 0]
    for found in classes:
        if found == wanted:
            numbers[-1] += 1
        elif numbers[-1]:
            numbers += [1, 0]
        else:
            numbers[-2] += 1
    if not numbers[-1]:
        del numbers[-2:]
    return " ".join(base36(number) for number in numbers)


def base36(number):
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


def main():
    # Surrogates are no text and cannot be measured.
    classes = [
        "P" if code_point in SURROGATES else measured_class(chr(code_point))
        for code_point in range(CODE_POINTS)
    ]
    print(HEADER % (__version__, UNICODE_VERSION, UNICODE_VERSION))
    for name, letter in (("LETTERS", "L"), ("NUMBERS", "N"), ("SPACES", "S")):
        print('\n%s = """' % name)
        print(textwrap.fill(packed(classes, letter), 99))
        print('"""')


if __name__ == "__main__":
    main()
