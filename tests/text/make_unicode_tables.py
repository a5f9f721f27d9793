"""Write edgeformer/text/unicode_tables.py from what Hugging Face `tokenizers` does today.

    .venv/bin/python -m tests.text.make_unicode_tables > unicode_tables.py    # minutes
    mv unicode_tables.py edgeformer/text/

Each table is a measurement of the reference, not of some Python's own Unicode data. Run it again
when tests/nn/text/test_tables.py says that a newer `tokenizers` has moved on.
"""

import subprocess
import textwrap

from tokenizers import AddedToken, Regex, Tokenizer, __version__, models, normalizers
from tokenizers import pre_tokenizers as pre

from edgeformer.text.code_points import CATEGORIES, CODE_POINTS

SURROGATES = range(0xD800, 0xE000)
SCRIPTS = ("Han", "Hangul", "Hiragana", "Katakana")

HEADER = r'''r"""What Unicode says of its code points, as Hugging Face `tokenizers` knows it.

Written by tests/text/make_unicode_tables.py, measured on tokenizers %s. Shipped because Python
3.6 knows Unicode 9 and every Python another version, and because `tokenizers` itself is made of
parts of different ages: patterns and classes are of Unicode 16, lower case of 17, normal forms of
9, and what BERT calls punctuation is older still. With `unicodedata` the ids of a text would
depend on the machine.

GENERAL is a list of runs: a length in base 36 (none: 1), then the letter of a category. The other
sets hold pairs of numbers in base 36: how many code points to skip, then how many are in.
"""'''

# What a set differs from, in code_points.category's words: only the difference is stored.
RELATIVE_TO = {
    "WORD": ("L", "M", "Nd", "Pc"),
    "SINGLE_WORD": ("L", "M", "Nd", "Pc"),
    "NUMERIC": ("N",),
    "PUNCTUATION": ("P",),
    "MARKS": ("M",),
    "NONSPACING": ("Mn",),
    "CONTROL": ("Cc", "Cf", "Co"),
}


def every_character():
    return [chr(each) for each in range(CODE_POINTS) if each not in SURROGATES]


def matched(pattern, characters):
    """Those that a pattern of one character finds."""
    text = "".join(characters)
    return set(text).difference(normalizers.Replace(Regex(pattern), "").normalize_str(text))


def cut_off(pre_tokenizer, characters):
    """Those that stand alone after cutting."""
    found = set()
    for start in range(0, len(characters), 4096):
        text = "".join("a" + each for each in characters[start : start + 4096]) + "a"
        pieces = pre_tokenizer.pre_tokenize_str(text)
        found.update(piece for piece, (at, _) in pieces if len(piece) == 1 and at % 2)
    return found


def becomes(normalizer, result, characters):
    return {each for each in characters if normalizer.normalize_str("a" + each + "a") == result}


def word_characters(characters):
    """Those beside which a token with single_word is not found."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.add_tokens([AddedToken("zq", single_word=True)])
    return {each for each in characters if 1 not in tokenizer.encode("zq" + each).ids}


def measured_sets(characters):
    """The named sets, of these characters."""
    bert = normalizers.BertNormalizer
    return {
        "SPACES": matched(r"\s", characters),
        "WORD": matched(r"\w", characters),
        "SINGLE_WORD": word_characters(characters),
        "NUMERIC": cut_off(pre.Digits(individual_digits=True), characters),
        "PUNCTUATION": cut_off(pre.Punctuation("isolated"), characters),
        "MARKS": becomes(normalizers.StripAccents(), "aa", characters),
        "NONSPACING": becomes(bert(False, False, True, False), "aa", characters),
        "CONTROL": becomes(bert(True, False, False, False), "aa", characters),
        "IDEOGRAPHS": {
            each
            for each in characters
            if bert(False, True, False, False).normalize_str(each) == " " + each + " "
        },
        **{name.upper(): matched(r"\p{%s}" % name, characters) for name in SCRIPTS},
    }


def measured_lower_case(characters):
    lower = normalizers.Lowercase()
    return {each: lower.normalize_str(each) for each in characters}


def categories(characters):
    """The category of each character."""
    found = {}
    for name in CATEGORIES:
        if name != "Cs":
            found.update(dict.fromkeys(matched(r"\p{%s}" % name, characters), name))
    return found


def ranges(characters):
    """Sorted borders: where the set begins, ends, begins ..."""
    borders = set()
    for each in characters:
        borders ^= {ord(each), ord(each) + 1}
    return tuple(sorted(borders))


def packed(borders):
    steps = [end - start for start, end in zip((0,) + borders, borders)]
    return textwrap.fill(" ".join(map(base36, steps)), 99)


def base36(number):
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


def packed_categories(found):
    runs = []
    for code_point in range(CODE_POINTS):
        name = "Cs" if code_point in SURROGATES else found[chr(code_point)]
        if runs and runs[-1][1] == name:
            runs[-1][0] += 1
        else:
            runs.append([1, name])
    text = "".join(("" if n == 1 else base36(n)) + CATEGORIES[name] for n, name in runs)
    return "\n".join(text[at : at + 99] for at in range(0, len(text), 99))


def packed_lower_case(found):
    """Runs of pairs equally far apart, in hexadecimal: first, last, step, distance."""
    runs = []
    for upper, lower in sorted((ord(upper), ord(lower)) for upper, lower in found.items()):
        far = lower - upper
        first, last, step, distance = runs[-1] if runs else (0, 0, 0, None)
        if far == distance and upper - last <= 2 and step in (0, upper - last):
            runs[-1] = (first, upper, upper - last, distance)
        else:
            runs.append((upper, upper, 0, far))
    words = ["%x:%x:%x:%x" % (first, last, step or 1, far) for first, last, step, far in runs]
    return textwrap.fill(" ".join(words), 99)


def unassigned_in_unicode_9():
    """What Python 3.6 says of it, the last Python with that version."""
    program = (
        "import unicodedata as u; assert u.unidata_version == '9.0.0';"
        "print(*[each for each in range(0x110000) if u.category(chr(each)) == 'Cn'])"
    )
    listed = subprocess.run([".venv36/bin/python", "-c", program], stdout=subprocess.PIPE)
    return {chr(int(each)) for each in listed.stdout.split()}


def table(name, text):
    print('\n%s = """\n%s\n"""' % (name, text))


def main():
    characters = every_character()
    found = categories(characters)
    print(HEADER % __version__)
    table("GENERAL", packed_categories(found))
    for name, members in measured_sets(characters).items():
        like = RELATIVE_TO.get(name, ())
        members ^= {each for each in characters if found[each].startswith(like)} if like else set()
        table(name, packed(ranges(members)))
    unassigned = unassigned_in_unicode_9()
    table("UNASSIGNED_IN_9", packed(ranges(unassigned)))
    lower = measured_lower_case(unassigned)
    table("NEW_LOWER_CASE", packed_lower_case({c: low for c, low in lower.items() if low != c}))


if __name__ == "__main__":
    main()
