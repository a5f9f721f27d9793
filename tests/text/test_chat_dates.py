"""strftime_now: every format, in English, from one reading of the clock."""

import datetime

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text.chat import ChatTemplate

HELLO = [{"role": "user", "content": "hi"}]
# No %c, %x and %X: the tests of the text itself have them.
LETTERS = "a A b B C d D e f F g G h H I j k l m M n p P r R S t T u U V w W y Y %"


def say(format, now=None):
    return ChatTemplate("{{ strftime_now(%r) }}" % format).render(HELLO, now=now)


def test_every_day_of_five_years_reads_as_python_writes_it():
    # Python itself never calls setlocale, so its strftime is that of the C locale here.
    format = "|".join("%" + letter for letter in LETTERS.split()) + "|%-d|%-m|%_d|%^a|%-I|%-H é"
    template = ChatTemplate("{{ strftime_now(%r) }}" % format)
    now = datetime.datetime(2023, 12, 20, 0, 7, 9, 42)
    for _ in range(5 * 366):
        now += datetime.timedelta(days=1, hours=5)
        assert template.render(HELLO, now=now) == now.strftime(format)


def test_a_locale_does_not_change_the_names(monkeypatch):
    # What a German locale makes of a date must not be asked for at all.
    class German(datetime.datetime):
        def strftime(self, format):
            return "Freitag"

    now = German(2025, 3, 7, 14, 5)
    assert say("%A %d %B %Y, %a %b %p", now) == "Friday 07 March 2025, Fri Mar PM"


def test_the_clock_is_read_once():
    template = ChatTemplate(
        "{{ strftime_now('%f') }}{% for i in range(2000) %}{% endfor %} {{ strftime_now('%f') }}"
    )
    first, second = template.render(HELLO).split()
    assert first == second


def test_without_a_given_time_it_is_now():
    before = datetime.datetime.now()
    shown = datetime.datetime.strptime(say("%Y-%m-%d %H:%M:%S.%f"), "%Y-%m-%d %H:%M:%S.%f")
    assert before <= shown <= datetime.datetime.now()


def test_a_time_zone_is_written_where_there_is_one():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert say("%z %Z", datetime.datetime(2025, 3, 7, tzinfo=zone)) == "+0200 UTC+02:00"


def test_what_strftime_does_not_know_is_refused_by_name():
    with pytest.raises(EdgeformerError, match="strftime does not know %Q"):
        say("%d %Q")
