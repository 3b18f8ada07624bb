"""CameraCtrl and ReCamMaster, which add the camera to the hidden state, against sums written out pixel by pixel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.encodings import CameraCtrl, ReCamMaster
from sightline.encodings.cameractrl import pixel_rays
from sightline.encodings.protocol import AttentionState
from sightline.errors import SightlineError
from tests.encodings import geometry as g

PIXELS = 4
SMALL = 6  # model width, so that the convolutions can be written as loops
TRAJECTORIES = {"pinhole": g.trajectory(1), "wide lens": g.trajectory(2, xi=0.4)}
ABSENT = torch.zeros(1, g.TOKENS, 90, dtype=torch.float64)


def slow_rays(trajectory: Trajectory, token: int) -> Tensor:  # [24 p p], frame slowest, then the six, then y, x
    latent, row, column = g.place(token)
    rays = torch.zeros(4, 6, PIXELS, PIXELS, dtype=torch.float64)
    for slot, frame in enumerate(g.raw_frames(latent)):
        for i in range(PIXELS):
            for j in range(PIXELS):
                x = (column + (j + 0.5) / PIXELS) * g.WIDTH / g.GRID[2]
                y = (row + (i + 0.5) / PIXELS) * g.HEIGHT / g.GRID[1]
                direction, moment = g.ray_through(trajectory, frame, x, y)
                rays[slot, :3, i, j], rays[slot, 3:, i, j] = moment, direction
    return rays.flatten()


def slow_convolution(picture: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # [t, h, w, dim] -> the same
    """3x3 with a border of zeros, as a sum over neighbours; frames do not mix."""
    result = torch.zeros_like(picture)
    for t, y, x in torch.cartesian_prod(*(torch.arange(size) for size in g.GRID)).tolist():
        total = bias.clone()
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if 0 <= y + dy < g.GRID[1] and 0 <= x + dx < g.GRID[2]:
                    total = total + weight[:, :, dy + 1, dx + 1] @ picture[t, y + dy, x + dx]
        result[t, y, x] = total
    return result


def slow_encoding(layer, trajectory: Trajectory) -> Tensor:  # [N, dim]
    p = {name: value.detach() for name, value in layer.named_parameters()}
    rays = torch.stack([slow_rays(trajectory, token) for token in range(g.TOKENS)])
    picture = (rays @ p["patch_weight"].T + p["patch_bias"]).unflatten(0, g.GRID)
    hidden = slow_convolution(picture, p["conv_1_weight"], p["conv_1_bias"]).clamp_min(0)
    return (picture + slow_convolution(hidden, p["conv_2_weight"], p["conv_2_bias"])).flatten(0, 2)


def hidden_state(dim: int = SMALL) -> Tensor:
    return torch.randn(1, g.TOKENS, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


# -- CameraCtrl -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lens", TRAJECTORIES)
def test_the_picture_of_rays_is_that_of_every_pixel(lens):
    actual = pixel_rays(g.rows(TRAJECTORIES[lens]), g.GRID, PIXELS)[0]
    for token in range(g.TOKENS):
        torch.testing.assert_close(actual[token], slow_rays(TRAJECTORIES[lens], token), atol=1e-10, rtol=0)


@pytest.mark.parametrize("lens", TRAJECTORIES)
@pytest.mark.parametrize("placement", ["tokens", "blocks"])
def test_cameractrl_is_two_convolutions_over_the_picture(placement, lens):
    layer, camera = g.trained(CameraCtrl(placement, PIXELS), dim=SMALL, heads=1), g.rows(TRAJECTORIES[lens])
    expected = slow_encoding(layer, TRAJECTORIES[lens])
    tokens, travelling = layer("embed", camera, g.GRID)
    if placement == "tokens":
        torch.testing.assert_close(tokens[0], expected, atol=1e-9, rtol=0)
        assert travelling is camera and layer.stages == {"embed"}
    else:
        assert tokens is None and layer.stages == {"embed", "input"}
        torch.testing.assert_close(travelling[0, :, 90:], expected, atol=1e-9, rtol=0)
        hidden = hidden_state()
        merged = (hidden[0] + expected) @ layer.merge_weight.T + layer.merge_bias
        torch.testing.assert_close(layer("input", hidden, travelling)[0], hidden[0] + merged, atol=1e-9, rtol=0)


@pytest.mark.parametrize("placement", ["tokens", "blocks"])
def test_cameractrl_gradcheck(placement):
    layer, camera = g.trained(CameraCtrl(placement, 2), dim=SMALL, heads=1), g.rows(TRAJECTORIES["pinhole"])

    def call(stage, hidden):
        tokens, travelling = stage("embed", camera, g.GRID)
        return stage("input", hidden, travelling) if tokens is None else hidden + tokens

    assert g.gradcheck_layer(layer, call, hidden_state())


def test_only_the_first_layer_encodes_and_blocks_merge_everywhere():
    for placement, stages in (
        ("tokens", [{"embed"}, set(), set()]),
        ("blocks", [{"embed", "input"}, *[{"input"}] * 2]),
    ):
        layers = CameraCtrl(placement, PIXELS).layers(SMALL, 1, 3)
        assert [set(layer.stages) for layer in layers] == stages
        assert len({name for name, _ in layers[1].named_parameters()}) == (2 if placement == "blocks" else 0)


def test_cameractrl_knows_the_world_frame_and_reads_all_four_raw_frames():
    layer, trajectory = g.trained(CameraCtrl(pixels=PIXELS), dim=SMALL, heads=1), TRAJECTORIES["pinhole"]
    still = layer("embed", g.rows(trajectory), g.GRID)[0]
    assert (layer("embed", g.rows(g.moved(trajectory, g.motions()[0])), g.GRID)[0] - still).abs().max() > 0.1
    between = trajectory.camera_to_world.clone()
    between[2, :3, 3] += 1.0  # raw frame 2 is nobody's latent pose
    other = Trajectory(between, trajectory.intrinsics, g.WIDTH, g.HEIGHT)
    changed = (layer("embed", g.rows(other), g.GRID)[0] - still)[0].abs().amax(dim=-1)
    assert (changed[:6] == 0).all() and (changed[6:] > 1e-3).all()


def test_cameractrl_adds_nothing_at_the_start_or_without_a_camera():
    torch.manual_seed(0)
    fresh = CameraCtrl(pixels=PIXELS).layer(SMALL, 1).double()
    assert not fresh("embed", g.rows(TRAJECTORIES["pinhole"]), g.GRID)[0].any()
    layer = g.trained(CameraCtrl(pixels=PIXELS), dim=SMALL, heads=1)
    assert not layer("embed", ABSENT, g.GRID)[0].any()
    layer, hidden = g.trained(CameraCtrl("blocks", PIXELS), dim=SMALL, heads=1), hidden_state()
    assert torch.equal(layer("input", hidden, layer("embed", ABSENT, g.GRID)[1]), hidden)


@pytest.mark.parametrize(
    "make, sentence",
    [(lambda: CameraCtrl("heads"), "placement is 'heads'"), (lambda: CameraCtrl(pixels=0), "pixels is 0")],
)
def test_settings_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(SightlineError, match=sentence):
        make()


# -- ReCamMaster ----------------------------------------------------------------------------------------------------


def test_recammaster_adds_the_flattened_camera_to_world_pose_and_projects_the_output():
    layer, trajectory = g.trained(ReCamMaster()), TRAJECTORIES["pinhole"]
    hidden, output = hidden_state(g.DIM), hidden_state(g.DIM) + 1
    state = AttentionState(hidden, *g.content(), g.softmax_attention)
    actual = layer("input", hidden, g.rows(trajectory))[0]
    projected = layer("output", output, state, g.rows(trajectory))[0]
    for token in range(g.TOKENS):
        pose = trajectory.camera_to_world[4 * g.place(token)[0], :3].flatten()  # row by row: R11 R12 R13 t1 ...
        expected = hidden[0, token] + layer.pose_weight @ pose + layer.pose_bias
        torch.testing.assert_close(actual[token], expected, atol=1e-9, rtol=0)
        expected = layer.out_weight @ output[0, token] + layer.out_bias
        torch.testing.assert_close(projected[token], expected, atol=1e-9, rtol=0)
    assert layer.stages == {"input", "output"}


def test_recammaster_gradcheck():
    layer, camera = g.trained(ReCamMaster()), g.rows(TRAJECTORIES["pinhole"])
    state = AttentionState(hidden_state(), *g.content(), g.softmax_attention)

    def call(stage, hidden, output):
        return stage("input", hidden, camera), stage("output", output, state, camera)

    assert g.gradcheck_layer(layer, call, hidden_state(g.DIM), hidden_state(g.DIM))


def test_recammaster_knows_the_world_frame_starts_as_nothing_and_leaves_tokens_without_a_camera():
    layer, hidden = g.trained(ReCamMaster()), hidden_state(g.DIM)
    state = AttentionState(hidden, *g.content(), g.softmax_attention)
    trajectory = TRAJECTORIES["pinhole"]
    still = layer("input", hidden, g.rows(trajectory))
    assert (layer("input", hidden, g.rows(g.moved(trajectory, g.motions()[0]))) - still).abs().max() > 0.1
    assert torch.equal(layer("input", hidden, ABSENT), hidden)
    assert torch.equal(layer("output", hidden, state, ABSENT), hidden)
    fresh = ReCamMaster().layer(g.DIM, g.HEADS).double()
    assert torch.equal(fresh("input", hidden, g.rows(trajectory)), hidden)
    assert torch.equal(fresh("output", hidden, state, g.rows(trajectory)), hidden)
