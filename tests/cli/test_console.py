"""Tables on the terminal."""

from __future__ import annotations

from sightline.cli._console import print_table

HEAD = ("Method", "PSNR where the view has moved (dB)", "held-out loss", "new parameters", "learning rate", "step (s)")
ROWS = [("SCoPE", "11.3 [2.0, 20.7] and more", "1.26 [1.03, 1.50]", "12,808", "0.002 x 10, 0.001 x 5", "0.283")]


def test_words_of_a_header_are_not_broken_where_there_is_room(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "64")
    print_table("", HEAD, ROWS, whole_words=True)
    printed = capsys.readouterr().out.split()
    assert {word for name in HEAD for word in name.split()} <= set(printed)


def test_columns_without_room_follow_below_with_whole_words_and_numbers(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    print_table("a title", HEAD, ROWS, whole_words=True)
    text = capsys.readouterr().out
    assert {word for cells in (HEAD, *ROWS) for cell in cells for word in cell.split()} <= set(text.split())
    assert text.count("a title") == 1 and text.count("SCoPE") > 1 and max(map(len, text.splitlines())) <= 40


def test_a_table_without_room_still_fits_the_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    print_table("", HEAD, ROWS, whole_words=True)
    lines = capsys.readouterr().out.splitlines()
    assert "SCoPE" in "".join(lines) and max(map(len, lines)) <= 30
