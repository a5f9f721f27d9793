"""Random templates: nonsense over the values of chat_cases, in every tag and white space."""

import random

_VOCABULARY = r"""
names: t u n f yes none_ l words rows d nested missing messages tools bos_token x y ns.a
names: i
texts: '' '_a_b_' 'é<&' 'a\nb\n' 'x,y' '7' 'k' '%s' '{}'
simple: 0 1 2 7 -1 1.5 true false none [] {} () range(3)
methods: strip() lstrip() rstrip() split() split(',') splitlines() upper() lower() title()
methods: items() capitalize() replace('a','b') startswith('a') endswith('b') find('a')
methods: isdigit() keys() values() get('a') get('k',1) strip('\n') split('\n')[-1]
methods: count('a') index(1) copy() join(words) format(n) center(9) partition(',')
methods: rsplit('b',1) zfill(4) isspace()
filters: trim upper lower title capitalize length list first last join join(',') tojson
filters: tojson(indent=2) string int float abs round sum min max sort unique|list reverse
filters: reverse|list default('z') default('z',true) items|list dictsort map('upper')|list
filters: map(attribute='k')|list select|list selectattr('k')|list
filters: rejectattr('v','odd')|list selectattr('k','equalto','x')|list replace('a','q')
filters: indent indent(2,true) truncate(5) wordcount batch(2)|list slice(2)|list count
filters: attr('x') center(8) map('string')|join reject('none')|list format(n)
filters: sort(attribute='k') map('length')|list select('string')|list sort(reverse=true)
filters: map('default',3)|list
tests: defined undefined none string mapping iterable sequence number integer float
tests: boolean true false odd even divisibleby(2) callable upper lower sameas(none)
tests: equalto('x') in(words) gt(2) lt(2) eq(7) ne(none) ge(1) le(1)
items: [0] [-1] [1:] [::-1] [:2] ['k'] ['a'] [5] .k .v .items
"""


def _words(kind):
    lines = [line.split(": ", 1) for line in _VOCABULARY.strip().split("\n")]
    return [word for key, words in lines if key == kind for word in words.split(" ")]


_NAMES, _SIMPLE, _METHODS = _words("names"), _words("simple"), _words("methods")
_FILTERS, _TESTS, _ITEMS = _words("filters"), _words("tests"), _words("items")
_TEXTS = [text.replace("_", " ") for text in _words("texts")]


class Fuzz:
    def __init__(self, seed):
        self._random = random.Random(seed)

    def template(self):
        pick = self._random.choice
        return "".join(self.statement(pick([1, 1, 2, 2, 3])) for _ in range(pick([1, 2])))

    def expression(self, depth):
        pick = self._random.choice
        if depth <= 0 or self._random.random() < 0.15:
            return pick([pick(_NAMES), pick(_NAMES), pick(_TEXTS), pick(_SIMPLE)])
        a, b, c = (self.expression(depth - 1) for _ in range(3))
        forms = [
            "(%s %s %s)" % (a, pick(["+", "-", "*", "/", "//", "%", "~", "and", "or"]), b),
            "(%s %s %s)" % (a, pick(["==", "!=", "<", ">", "<=", ">=", "in", "not in"]), b),
            "(not %s)" % a,
            "(%s is %s%s)" % (a, pick(["", "not "]), pick(_TESTS)),
            "(%s if %s else %s)" % (a, b, c),
            "[%s, %s]" % (a, b),
            "(%s, %s)" % (a, b),
            "{'a': %s, %s: %s}" % (a, pick(_TEXTS), b),
            "(%s)%s" % (a, pick(_ITEMS)),
            "(%s)[%s]" % (a, b),
        ]
        forms += ["(%s).%s" % (a, pick(_METHODS))] * 2 + ["(%s)|%s" % (a, pick(_FILTERS))] * 4
        return pick(forms)

    def statement(self, depth, in_loop=False):
        pick, expression = self._random.choice, self.expression
        output = "%s{{%s %s %s}}" % (
            pick(["", "\n", " ", "\n  ", "a"]),
            pick(["", "-"]),
            expression(pick([1, 1, 2, 3])),
            pick(["", "-"]),
        )
        if depth <= 0 or self._random.random() < 0.3:
            return output

        def body(loop=in_loop):
            return "".join(self.statement(depth - 1, loop) for _ in range(pick([1, 2])))

        tag, end = self._tag, pick([True, False])
        forms = [
            lambda: tag("if " + expression(2)) + body() + tag("else") + body() + tag("endif"),
            lambda: self._loop(body, end),
            lambda: tag("set %s = %s" % (pick(["x", "y", "i", "l", "n"]), expression(3))) + output,
            lambda: tag("set ns = namespace(a=1)") + tag("set ns.a = " + expression(2)) + output,
            lambda: tag("set x") + body() + tag("endset") + "{{ x }}",
            lambda: (
                tag("macro m(x, y=%s)" % expression(1))
                + body(False)
                + tag("endmacro")
                + "{{ m(%s) }}{{ m(y=%s) }}" % (expression(1), expression(1))
            ),
            lambda: tag("filter " + pick(["upper", "trim"])) + body() + tag("endfilter"),
            lambda: tag("with x = " + expression(1)) + body() + tag("endwith"),
            lambda: pick(["", "\n", "  "]) + "{# a comment #}" + pick(["", "\n", " "]),
        ]
        if in_loop:
            leave = tag(pick(["break", "continue"]))
            forms += [lambda: tag("if " + expression(1)) + leave + tag("endif") + self._of_loop()]
        return pick(forms)()

    def _loop(self, body, with_else):
        pick = self._random.choice
        over = pick(["l", "words", "rows", "messages", "d", "t", self.expression(2)])
        only_if = pick(["", "", " if " + self.expression(1)])
        text = self._tag("for %s in %s%s" % (pick(["x", "y", "i"]), over, only_if)) + body(True)
        if with_else:
            text += self._tag("else") + body()
        return text + self._tag("endfor")

    def _of_loop(self):
        return "{{ loop.%s }}" % self._random.choice(
            ["index", "last", "first", "revindex", "length"]
        )

    def _tag(self, inside):
        pick = self._random.choice
        left, right = pick(["", "", "-", "+"]), pick(["", "", "-", "+"])
        return "{%%%s %s %s%%}%s" % (left, inside, right, pick(["", "\n", " ", "\n  "]))
