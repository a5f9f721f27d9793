"""Chat templates, evaluated: an interpreter of Jinja's syntax tree that runs no template as Python.

A template comes with a model from anywhere. jinja2 compiles one to Python and fences it in; its
last release for Python 3.6 has known holes in that fence, and none of its releases bounds what a
template may use. So jinja2 only parses here (in edgeformer/text/chat.py). Of the tree, every node
is a step of a budget, every text is paid for before it is made, and a value is one of the kinds
that `values` names: nothing has attributes but those listed there, so there is nothing to escape
to. Texts know which of their characters the template wrote (`traced`).

What this interpreter does not know it refuses by name; it never renders something else instead.
"""
