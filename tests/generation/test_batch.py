"""Tables of jobs: what they say, how they are shared out, and one sentence for what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.errors import SightlineError
from sightline.generation import batch
from sightline.generation.batch import read_jobs, run_jobs
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions

BASE = Job(output=Path("videos"), num_inference_steps=7)


def test_a_table_and_a_list_say_the_same(tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "\ufeffoutput,move,world,seed,camera_guidance_scale,image,text_only,prompt\n"
        'a,"dolly:1+pan:3, static",4,,2.5,,,\n'
        ',,,9,,first.png,false,"a, b"\n'
    )
    rows = [
        {"output": "a", "move": "dolly:1+pan:3, static", "world": 4, "camera_guidance_scale": 2.5},
        {"seed": 9, "image": "first.png", "text_only": False, "prompt": "a, b"},
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(rows))
    jobs = read_jobs(tmp_path / "jobs.csv", BASE)
    assert jobs == read_jobs(tmp_path / "jobs.json", BASE)
    assert jobs[0] == Job(
        Path("videos/a"), move="dolly:1+pan:3, static", world=4, camera_guidance_scale=2.5, num_inference_steps=7
    )
    assert jobs[1] == Job(
        Path("videos/0001"), image=tmp_path / "first.png", prompt="a, b", seed=9, num_inference_steps=7
    )


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("[", "cannot be read"),
        ("{}", "holds a dict: expected a list of jobs"),
        ("[]", "found no jobs"),
        ("[3]", "job 0: found no fields by name"),
        ('[{"mvoe": "pan"}]', "job 0: found the field 'mvoe', expected some of axes, camera_guidance_scale, direction"),
        ('[{}, {"seed": 1.5}]', r"job 1: seed is 1\.5: expected a whole number"),
        ('[{"guidance_scale": "much"}]', "job 0: guidance_scale is 'much': expected a number"),
        ('[{"prompt": 3}]', "job 0: prompt is 3: expected text"),
        ('[{"text_only": "maybe"}]', "text_only is 'maybe'"),
        ('[{"output": "."}]', r"job 0: output is '\.': expected a folder inside"),
        ('[{"output": "a"}, {"output": "b/../a"}]', "found an output twice"),
        ('[{"output": "a/b"}, {"output": "a"}]', "found the output videos/a/b inside videos/a"),
        ('[{"world": 1, "image": "a.png"}]', "job 0: image and world are both given"),
        ('[{"output": "a"}, {"output": "a"}]', "found an output twice"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(text, sentence, tmp_path):
    (tmp_path / "jobs.json").write_text(text)
    with pytest.raises(SightlineError, match=sentence) as caught:
        read_jobs(tmp_path / "jobs.json", BASE)
    assert "\n" not in str(caught.value)


def test_processes_share_the_jobs_and_each_reports_its_own_failures(tmp_path, monkeypatch):
    def generate(model, job, **_):
        if job.seed == 3:
            raise SightlineError("three is no good.")
        done.append(job.seed)
        return {}

    done = []
    monkeypatch.setattr(batch, "run_job", generate)
    jobs = [Job(tmp_path / str(seed), seed=seed) for seed in range(5)]
    model = Model(ModelOptions())
    assert run_jobs(model, jobs, rank=0, processes=2) == [] and done == [0, 2, 4]
    assert run_jobs(model, jobs, rank=1, processes=2) == [(str(tmp_path / "3"), "three is no good.")]
    assert sorted(done) == [0, 1, 2, 4]
