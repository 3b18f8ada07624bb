"""The page of a run or of a comparison: videos side by side, sorted by any score. One file, which needs nothing but the
videos it points to."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sightline.evaluation.results import TITLES
from sightline.evaluation.tables import figure
from sightline.files import write_atomic

_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;color:#22262b;background:#faf9f6;margin:2rem auto;max-width:90rem;padding:0 1rem}
h1{font-size:1.5rem} h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto} th,td{padding:.25rem .45rem;text-align:right;border-bottom:1px solid #e6e8ec;white-space:nowrap}
th{white-space:normal;vertical-align:bottom} th:first-child,td:first-child{text-align:left} img{max-width:100%}
.bar{position:sticky;top:0;background:#faf9f6;padding:.6rem 0;z-index:1}
.clip{background:#fff;border:1px solid #e6e8ec;border-radius:6px;padding: .8rem 1rem;margin:.8rem 0}
.films{display:flex;gap:.8rem;flex-wrap:wrap;align-items:flex-start} figure{margin:0} figcaption{color:#7b828c;font-size:12px}
video{background:#000;height:220px;display:block;cursor:pointer} .films img{height:220px;width:auto;display:block}
.scores span{display:inline-block;margin-right:1rem} .scores b{font-weight:600} .failed{color:#c8452c} .quiet{color:#7b828c}
button,select{font:inherit}
"""
# Sortable, but not spelled out under each clip: what repeats another score, or its sister.
_ELSEWHERE = ("rot_err rescaled", *(f"{name} gt_scaled" for name in ("rot_err", "trans_err", "cam_mc", "ate")))
_SCRIPT = """
const list=document.getElementById('clips'),by=document.getElementById('by'),up=document.getElementById('up');
function sort(){const key=by.value,sign=up.value==='most'?-1:1,cards=[...list.children];
 const value=c=>{const v=JSON.parse(c.dataset.scores)[key];return v===undefined||v===null?null:v};
 cards.sort((a,b)=>{if(key==='')return a.dataset.order-b.dataset.order;const x=value(a),y=value(b);
  if(x===null||y===null)return (x===null)-(y===null);return sign*(x-y)});
 cards.forEach(c=>list.append(c))}
by.onchange=up.onchange=sort;
document.getElementById('play').onclick=()=>document.querySelectorAll('video').forEach(v=>{v.currentTime=0;v.play()});
list.onclick=e=>{if(e.target.tagName!=='VIDEO')return;const go=e.target.paused,at=e.target.currentTime;
 e.target.closest('.clip').querySelectorAll('video').forEach(v=>{v.currentTime=at;go?v.play():v.pause()})};
document.getElementById('pause').onclick=()=>document.querySelectorAll('video').forEach(v=>v.pause());
sort();
"""


def write_page(
    path: Path,
    title: str,
    tables: str,
    results: Sequence[dict[str, Any]],
    folders: Sequence[Path],
    plots: Sequence[Path],
) -> None:
    """tables: markdown. results and folders: of each run, in one order; clips are those of the first run."""
    keys = [key for key in TITLES if any(key in clip["scores"] for one in results for clip in one["clips"])]
    options = [f'<option value="{html.escape(key)}">{html.escape(TITLES[key][0])}</option>' for key in keys]
    start = path.parent.absolute()
    pictures = [f'<img src="{_link(plot, start)}" alt="{plot.stem}">' for plot in plots if plot.is_file()]
    told = [key for key in keys if key not in _ELSEWHERE]
    cards = [_card(number, clip, results, folders, start, told) for number, clip in enumerate(results[0]["clips"])]
    document = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
{_as_html(tables)}
{"".join(pictures)}
<h2>Clips</h2>
<div class="bar">sort by <select id="by" title="{html.escape(results[0]["label"], quote=True)}">
<option value="">order of the run</option>{"".join(options)}</select>
<select id="up"><option value="most">largest first</option><option value="least">smallest first</option></select>
<button id="play">play all</button> <button id="pause">pause</button>
<span class="quiet">a click on a film plays or stops those of its clip together</span></div>
<div id="clips">{"".join(cards)}</div>
<script>{_SCRIPT}</script></body></html>
"""
    write_atomic(path, document)


def _card(
    number: int,
    clip: dict[str, Any],
    results: Sequence[dict[str, Any]],
    folders: Sequence[Path],
    start: Path,
    keys: Sequence[str],
) -> str:
    """One clip: the true film, that of each run, the first run's paths, its scores and what failed."""
    name = clip["clip"]
    films = [("true", folders[0] / "clips" / name / "true.mp4")]
    films += [
        (one["label"], folder / "clips" / name / "generated.mp4") for one, folder in zip(results, folders, strict=True)
    ]
    shown = [
        # From a moment after the start: browsers show nothing of a film at its very start until it is played.
        f'<figure><video src="{_link(film, start)}#t=0.001" muted loop playsinline preload="metadata"></video>'
        f"<figcaption>{html.escape(label)}</figcaption></figure>"
        for label, film in films
        if film.is_file()
    ]
    paths = folders[0] / "clips" / name / "paths.png"
    of_first = f" ({html.escape(results[0]['label'])})" if len(results) > 1 else ""
    if paths.is_file():
        shown.append(
            f'<figure><a href="{_link(paths, start)}"><img src="{_link(paths, start)}" loading="lazy" alt="camera paths"></a>'
            f"<figcaption>true and estimated paths{of_first}</figcaption></figure>"
        )
    lines = []
    for one in results:
        found: dict[str, Any] = next(
            (other for other in one["clips"] if other["clip"] == name), {"scores": {}, "failures": []}
        )
        cells = [
            f"<span>{html.escape(TITLES[key][0])} <b>{figure(found['scores'][key])}</b></span>"
            for key in keys
            if key in found["scores"]
        ]
        failed = [
            f'<div class="failed">{html.escape(failure["stage"])}: {html.escape(failure["sentence"])}</div>'
            for failure in found["failures"]
        ]
        label = f'<span class="quiet">{html.escape(one["label"])}</span>' if len(results) > 1 else ""
        lines.append(f'<div class="scores">{label}{"".join(cells)}</div>{"".join(failed)}')
    scores = html.escape(json.dumps(clip["scores"]), quote=True)
    return (
        f'<div class="clip" data-order="{number}" data-scores="{scores}"><b>{html.escape(name)}</b> '
        f'<span class="quiet">{html.escape(clip.get("caption", ""))}</span>'
        f'<div class="films">{"".join(shown)}</div>{"".join(lines)}</div>\n'
    )


def _link(file: Path, start: Path) -> str:
    return html.escape(quote(Path(os.path.relpath(file.absolute(), start)).as_posix()), quote=True)


def _as_html(markdown: str) -> str:
    """What our own tables use of markdown: headings, tables, lists, paragraphs."""
    found = []
    for block in markdown.strip().split("\n\n"):
        lines = [html.escape(line) for line in block.splitlines()]
        if lines[0].startswith("#"):
            level = 1 + len(lines[0]) - len(lines[0].lstrip("#"))
            found.append(f"<h{level}>{lines[0].lstrip('# ')}</h{level}>")
        elif lines[0].startswith("|"):
            rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
            head = "".join(f"<th>{cell}</th>" for cell in rows[0])
            body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[2:])
            found.append(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')
        elif lines[0].startswith("- "):
            found.append("<ul>" + "".join(f"<li>{line[2:]}</li>" for line in lines) + "</ul>")
        else:
            found.append("<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", " ".join(lines)) + "</p>")
    return "\n".join(found)
