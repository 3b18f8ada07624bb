"""A table as Markdown, CSV and LaTeX, and the pairs of rows behind it."""

from __future__ import annotations

import csv
import io
import re

from sightline.evaluation.tables import NO_VALUE, grid
from sightline.study.comparison import MetricComparison, TableComparison
from sightline.study.layout import metric_title
from sightline.study.tables import Sheet, TableCell, format_mean

PAIRS_HEAD = ["Metric", "Row", "against", "difference", "95 %", "p", "p, Holm", "verdict", "clips", "seeds"]
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "<": r"$<$",
    ">": r"$>$", "±": r"$\pm$", "×": r"$\times$", "↔": r"$\leftrightarrow$", "ü": r"\"{u}",
}  # fmt: skip


def markdown(sheet: Sheet) -> str:
    """The table and its notes, without how it was made."""
    rows = [[_markdown_cell(cell) for cell in row] for row in sheet.rows]
    return "\n\n".join([grid(sheet.head, rows), *sheet.notes])


def csv_text(sheet: Sheet) -> str:
    """Unrounded numbers: mean, low and high end of the interval, whether it is bold, and the clips of each metric."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(sheet.numbers[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet.numbers)
    return file.getvalue()


def latex(sheet: Sheet) -> str:
    """A table for booktabs, with the groups of columns as the paper has them."""
    upper, rules, column = [], [], 1
    for text, count in sheet.groups:
        upper.append(rf"\multicolumn{{{count}}}{{c}}{{{escape(text)}}}" if text else " & ".join([""] * count))
        if text:
            rules.append(rf"\cmidrule(lr){{{column}-{column + count - 1}}}")
        column += count
    has_groups = any(text for text, _ in sheet.groups)
    lines = [
        r"% needs \usepackage{booktabs, graphicx}",
        r"\begin{table*}[t]",
        r"  \centering",
        rf"  \caption{{{escape(' '.join([sheet.title + '.', sheet.method, *sheet.notes]))}}}",
        rf"  \label{{tab:{re.sub('[^a-z0-9]+', '-', sheet.title.casefold())}}}",
        r"  \resizebox{\textwidth}{!}{%",
        rf"  \begin{{tabular}}{{l{'c' * (len(sheet.head) - 1)}}}",
        r"    \toprule",
        *([f"    {' & '.join(upper)} \\\\", f"    {''.join(rules)}"] if has_groups else []),
        f"    {' & '.join(map(escape, sheet.head))} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(map(_latex_cell, row))} \\\\" for row in sheet.rows),
        r"    \bottomrule",
        r"  \end{tabular}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def pairs_rows(compared: MetricComparison) -> list[list[str]]:
    """Every pair of rows in one metric."""
    rows = []
    for pair in compared.pairs:
        difference, interval = format_mean(pair.difference, pair.interval)
        p_values = [NO_VALUE if value is None else f"{value:.2g}" for value in (pair.p_value, pair.corrected)]
        names = [metric_title(compared.metric), pair.first, pair.second]
        counts = [f"{pair.clips} of {compared.asked}", str(pair.seeds)]
        rows.append([*names, _signed(difference), interval or NO_VALUE, *p_values, pair.verdict, *counts])
    return rows


def pairs_csv(table: TableComparison) -> str:
    """Every pair of rows in every metric and cost, unrounded."""
    file = io.StringIO()
    names = ("difference", "low", "high", "p_value", "corrected", "verdict", "seeds", "clips")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["metric", "first", "second", *names])
    for metric, compared in table.metrics.items():
        for pair in compared.pairs:
            numbers = [
                pair.difference,
                *pair.interval,
                pair.p_value,
                pair.corrected,
                pair.verdict,
                pair.seeds,
                pair.clips,
            ]
            writer.writerow([metric, pair.first, pair.second, *numbers])
    return file.getvalue()


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _signed(number: str) -> str:
    return number if number.startswith("-") or not number.strip("0.") else f"+{number}"


def _markdown_cell(cell: TableCell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    return f"{text} {cell.interval}".rstrip()


def _latex_cell(cell: TableCell) -> str:
    text = rf"\textbf{{{escape(cell.text)}}}" if cell.bold else escape(cell.text)
    return rf"{text} {{\scriptsize {cell.interval}}}" if cell.interval else text
