"""Videos are written whole or not at all, and read or refused in one sentence."""

from __future__ import annotations

import os

import av
import numpy as np
import pytest
import torch
from PIL import Image

import sightline as sl
from sightline.video import read_video_frames

FRAMES = np.zeros((5, 32, 48, 3), dtype=np.uint8)
FRAMES[:, :, :, 0] = np.linspace(0, 250, 48).astype(np.uint8)
for number, frame in enumerate(FRAMES):
    frame[8:24, 8 + 4 * number : 24 + 4 * number, 1] = 200


def read(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]), float(
            stream.average_rate
        )


def test_what_is_written_can_be_read_back(tmp_path):
    sl.save_video(FRAMES, tmp_path / "new" / "a.mp4", fps=24)
    frames, fps = read(tmp_path / "new" / "a.mp4")
    assert frames.shape == FRAMES.shape and fps == 24
    assert np.abs(frames.astype(int) - FRAMES).mean() < 4  # chroma is halved
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.mp4"]


def test_arrays_tensors_lists_and_pictures_are_the_same_film(tmp_path):
    videos = [
        FRAMES,
        FRAMES.astype(np.float32) / 255,
        torch.from_numpy(FRAMES),
        torch.from_numpy(FRAMES).double() / 255,
        list(FRAMES),
        [Image.fromarray(frame) for frame in FRAMES],
    ]
    for number, video in enumerate(videos):
        sl.save_video(video, tmp_path / f"{number}.mp4")
    first = (tmp_path / "0.mp4").read_bytes()
    assert all((tmp_path / f"{number}.mp4").read_bytes() == first for number in range(len(videos)))


def test_odd_sizes_and_gifs(tmp_path):
    sl.save_video(FRAMES[:, :31, :47], tmp_path / "odd.mp4")
    assert read(tmp_path / "odd.mp4")[0].shape == (5, 32, 48, 3)
    sl.save_video(FRAMES, tmp_path / "a.gif", fps=10)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.size == (48, 32) and gif.info["duration"] == 100


@pytest.mark.parametrize(
    "video, name, fps, sentence",
    [
        (FRAMES[0], "a.mp4", 16, r"shape \(32, 48, 3\): expected \[T, H, W, 3\]"),
        ([], "a.mp4", 16, "expected"),
        (FRAMES.astype(int), "a.mp4", 16, "holds int64"),
        (np.full((2, 8, 8, 3), np.nan), "a.mp4", 16, "values from nan"),
        (np.full((2, 8, 8, 3), 100.0), "a.mp4", 16, "values from 100 to 100"),
        ([FRAMES[0], FRAMES[1][:8]], "a.mp4", 16, "one size"),
        (FRAMES, "a.mp4", "fast", "fps is 'fast'"),
        (FRAMES, "a.avi", 16, "extension '.avi'"),
        (FRAMES, "a.mp4", 0, "fps is 0"),
        (FRAMES, "a.mp4", 1e-4, "fps is 0.0001"),  # the file would state 24
        (FRAMES, "file/a.mp4", 16, "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(tmp_path, video, name, fps, sentence):
    (tmp_path / "file").write_text("")
    with pytest.raises(sl.SightlineError, match=sentence):
        sl.save_video(video, tmp_path / name, fps)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_no_video_is_one_sentence(tmp_path):
    sl.save_video(FRAMES, tmp_path / "sound.mp4")
    assert len(list(read_video_frames(tmp_path / "sound.mp4", [0, 4], 5))) == 2
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "device.mp4").symlink_to("/dev/zero")
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "cut.mp4").write_bytes((tmp_path / "sound.mp4").read_bytes()[:-300])
    # A playlist, which would make FFmpeg read the files and addresses that it names.
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{tmp_path / 'sound.mp4'}\n#EXT-X-ENDLIST\n"
    (tmp_path / "list.m3u8").write_text(playlist)
    with av.open(str(tmp_path / "sound.wav"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    for file in sorted(set(tmp_path.iterdir()) - {tmp_path / "sound.mp4"}):
        with pytest.raises(sl.SightlineError, match=file.name) as caught:
            list(read_video_frames(file, [0, 4], 5))
        assert "\n" not in str(caught.value)


def test_a_frame_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    sl.save_video(FRAMES, tmp_path / "a.mp4")
    monkeypatch.setattr("sightline.video._MAX_PIXELS", 100)
    with pytest.raises(sl.SightlineError, match="cannot be decoded"):
        list(read_video_frames(tmp_path / "a.mp4", [0], 5))
