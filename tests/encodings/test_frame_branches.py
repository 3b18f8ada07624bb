"""PRoPE, GTA and UCPE against block-diagonal matrices, token by token: equality, gradients, and what cancels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sightline.cameras.tokens import CameraTokens
from sightline.cameras.trajectory import Trajectory
from sightline.encodings import Gta, Prope, Ucpe
from sightline.encodings.protocol import AttentionState
from sightline.encodings.ucpe import latitude_up
from sightline.errors import SightlineError
from tests.encodings import geometry as g

METHODS = {
    "prope": Prope(),
    "prope own": Prope("own"),
    "prope released": Prope("own", ratio=2, qk_norm=True, whole_heads=True, lens=(0.5, 0.9)),
    "gta": Gta(),
    "gta own": Gta("own"),
    "ucpe": Ucpe(ratio=2),
    "ucpe without map": Ucpe(ratio=1, latitude_up=False),
}
TRAJECTORIES = {"pinhole": g.trajectory(1), "wide lens": g.trajectory(2, xi=0.4)}


# -- the slow way ---------------------------------------------------------------------------------------------------


def frame_of(layer, trajectory: Trajectory, token: int) -> Tensor:  # [4, 4]
    latent, row, column = g.place(token)
    frame = 4 * latent
    pose = g.world_to_camera(trajectory, frame)
    if isinstance(layer.settings, Gta):
        scaled = pose.clone()
        scaled[:3, 3] *= layer.translation.item()
        return scaled
    if isinstance(layer.settings, Prope):
        if layer.settings.lens is not None:
            fx, fy = layer.settings.lens
            return torch.diag(torch.tensor([fx, fy, 1.0, 1.0], dtype=torch.float64)) @ pose
        return g.lifted(g.lens_of(trajectory, frame)) @ pose
    direction, _ = g.ray_through(
        trajectory, frame, (column + 0.5) * g.WIDTH / g.GRID[2], (row + 0.5) * g.HEIGHT / g.GRID[1]
    )
    camera_to_world = trajectory.camera_to_world[frame]
    z = direction / direction.norm()
    x = torch.linalg.cross(camera_to_world[:3, 1], z)
    x = x / x.norm()
    ray_to_world = torch.eye(4, dtype=torch.float64)
    ray_to_world[:3, :3] = torch.stack([x, torch.linalg.cross(z, x), z], dim=1)
    ray_to_world[:3, 3] = camera_to_world[:3, 3]
    return torch.linalg.inv(ray_to_world)


def split_half(position: int, width: int) -> Tensor:  # [width, width]
    """Channels p and p + width / 2 turned by minus position * 100^(-p / (width / 2))."""
    half, matrix = width // 2, torch.zeros(width, width, dtype=torch.float64)
    for p in range(half):
        pair = torch.tensor([p, p + half])
        matrix[pair[:, None], pair] = g.turn(-position * 100 ** (-p / half))
    return matrix


def half_and_turns(block: Tensor, token: int, width: int, backwards: bool) -> Tensor:  # [D, D]
    _, row, column = g.place(token)
    turns = [split_half(position, width // 4) for position in (column, row)]
    return torch.block_diag(*[block] * (width // 8), *(turn.T if backwards else turn for turn in turns))


def slow_map(trajectory: Trajectory, token: int) -> Tensor:  # [3]
    """Up in the image as a difference quotient of the projection, and the latitude."""
    latent, row, column = g.place(token)
    step = 1e-6
    k, pose = trajectory.intrinsics[4 * latent], trajectory.camera_to_world[4 * latent]
    x, y = (column + 0.5) * g.WIDTH / g.GRID[2], (row + 0.5) * g.HEIGHT / g.GRID[1]
    direction, _ = g.ray_through(trajectory, 4 * latent, x, y)
    axis = torch.linalg.cross(direction, torch.tensor([0.0, -1.0, 0.0], dtype=torch.float64))
    axis = axis / axis.norm()
    higher = direction * math.cos(step) + torch.linalg.cross(axis, direction) * math.sin(step)
    seen = pose[:3, :3].T @ higher
    depth = seen[2] + trajectory.xi * seen.norm()
    start = torch.stack(
        [(x - k[0, 2]) / k[0, 0], (y - k[1, 2]) / k[1, 1]]
    )  # at focal length 1, where pixels are square
    up = torch.stack([seen[0] / depth, seen[1] / depth]) - start
    return torch.cat([up / up.norm(), torch.asin(-direction[1])[None]])


def slow(layer, output: Tensor, state: AttentionState, trajectory: Trajectory) -> Tensor:  # [N, dim]
    p = {name: value.detach() for name, value in layer.named_parameters()}
    hidden = state.hidden[0]
    if isinstance(layer.settings, Ucpe):
        if layer.settings.latitude_up:
            maps = torch.stack([slow_map(trajectory, token) for token in range(g.TOKENS)])
            hidden = hidden + maps @ p["map_weight"].T + p["map_bias"]
        joined = (hidden @ p["qkv_weight"].T + p["qkv_bias"]).chunk(3, dim=-1)
    elif layer.settings.branch == "own":
        joined = [hidden @ p[f"{name}_weight"].T + p[f"{name}_bias"] for name in "qkv"]
        if layer.settings.qk_norm:
            for index, name in enumerate(("norm_q", "norm_k")):
                size = (joined[index].square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()
                joined[index] = joined[index] / size * p[name]
    else:
        joined = [x[0].flatten(1) for x in (state.query, state.key, state.value)]
    query, key, value = (x.reshape(g.TOKENS, layer.heads, -1) for x in joined)
    width = query.shape[-1]
    frames = [frame_of(layer, trajectory, token) for token in range(g.TOKENS)]
    result = torch.zeros_like(query)

    def whole(block: Tensor, token: int, width: int, backwards: bool = False) -> Tensor:  # [D, D]
        if getattr(layer.settings, "whole_heads", False):
            return torch.block_diag(*[block] * (width // 4))
        return half_and_turns(block, token, width, backwards)

    for head in range(layer.heads):
        q = [whole(frames[i].T, i, width) @ query[i, head] for i in range(g.TOKENS)]
        k = [whole(torch.linalg.inv(frames[i]), i, width) @ key[i, head] for i in range(g.TOKENS)]
        v = [whole(torch.linalg.inv(frames[i]), i, width) @ value[i, head] for i in range(g.TOKENS)]
        for i in range(g.TOKENS):
            weights = torch.softmax(torch.stack([q[i] @ k[j] for j in range(g.TOKENS)]) / math.sqrt(width), dim=0)
            mixed = sum(weights[j] * v[j] for j in range(g.TOKENS))
            result[i, head] = whole(frames[i], i, width, backwards=True) @ mixed
    return output[0] + result.flatten(1) @ p["out_weight"].T + p["out_bias"]


def attention_inputs() -> tuple[Tensor, AttentionState]:
    generator = torch.Generator().manual_seed(0)
    output, hidden = torch.randn(2, 1, g.TOKENS, g.DIM, generator=generator, dtype=torch.float64)
    return output, AttentionState(hidden, *g.content(0), g.softmax_attention)


def branch(layer, trajectory: Trajectory) -> Tensor:
    output, state = attention_inputs()
    return (layer("output", output, state, g.rows(trajectory)) - output)[0]


# -- the tests ------------------------------------------------------------------------------------------------------


def test_packed_rows_are_those_written_out_by_hand():
    for trajectory in TRAJECTORIES.values():
        packed = CameraTokens.from_trajectory(trajectory, g.GRID, anchor=None).rows
        torch.testing.assert_close(packed.double(), g.rows(trajectory), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("lens", TRAJECTORIES)
@pytest.mark.parametrize("name", METHODS)
def test_the_branch_is_attention_between_block_diagonal_matrices(name, lens):
    layer, trajectory = g.trained(METHODS[name]), TRAJECTORIES[lens]
    output, state = attention_inputs()
    tolerance = 1e-5 if name == "ucpe" else 1e-9  # the slow up vector is a difference quotient
    actual = layer("output", output, state, g.rows(trajectory))[0]
    torch.testing.assert_close(actual, slow(layer, output, state, trajectory), atol=tolerance, rtol=tolerance)
    assert layer.stages == {"output"}


@pytest.mark.parametrize("name", METHODS)
def test_gradcheck(name):
    layer, camera = g.trained(METHODS[name]), g.rows(TRAJECTORIES["wide lens"])
    output, state = attention_inputs()

    def call(stage, output, hidden, query, key, value):
        return stage("output", output, AttentionState(hidden, query, key, value, g.softmax_attention), camera)

    assert g.gradcheck_layer(layer, call, output, *state[:4])


@pytest.mark.parametrize("name", [name for name in METHODS if name != "ucpe"])
def test_a_rigid_motion_of_the_world_changes_nothing(name):
    layer, trajectory = g.trained(METHODS[name]), TRAJECTORIES["pinhole"]
    still = branch(layer, trajectory)
    for motion in g.motions():
        torch.testing.assert_close(branch(layer, g.moved(trajectory, motion)), still, atol=1e-9, rtol=1e-9)
    assert (branch(layer, g.trajectory(5)) - still).abs().max() > 0.1  # though another trajectory does


def test_ucpe_s_map_knows_up_and_so_only_motions_that_keep_it_cancel():
    layer, trajectory = g.trained(METHODS["ucpe"]), TRAJECTORIES["pinhole"]
    still = branch(layer, trajectory)
    torch.testing.assert_close(branch(layer, g.moved(trajectory, g.upright_motion())), still, atol=1e-9, rtol=1e-9)
    assert (branch(layer, g.moved(trajectory, g.motions()[0])) - still).abs().max() > 0.01


@pytest.mark.parametrize("name", [name for name in METHODS if name != "ucpe"])
def test_with_poses_inverted_a_motion_of_the_world_would_not_cancel(name):
    layer, trajectory = g.trained(METHODS[name]), TRAJECTORIES["pinhole"]

    def inverted(one: Trajectory) -> Tensor:
        camera = g.rows(one)
        pose = torch.eye(4, dtype=torch.float64).repeat(1, g.TOKENS, 1, 1)
        pose[..., :3, :] = camera[..., 6:18].unflatten(-1, (3, 4))
        camera[..., 6:18] = torch.linalg.inv(pose)[..., :3, :].flatten(-2)
        output, state = attention_inputs()
        return (layer("output", output, state, camera) - output)[0]

    assert (inverted(g.moved(trajectory, g.motions()[0])) - inverted(trajectory)).abs().max() > 0.01


def test_gta_ignores_the_lens_and_prope_does_not():
    near = g.trajectory(1)
    far = Trajectory(near.camera_to_world, near.intrinsics @ torch.diag(torch.tensor([2.0, 2.0, 1.0])).double(), 48, 32)
    for encoding, listens in ((Gta(), False), (Prope(), True)):
        layer = g.trained(encoding)
        assert ((branch(layer, near) - branch(layer, far)).abs().max() > 1e-3) == listens


def test_latitude_and_up_of_a_level_camera():
    trajectory = Trajectory(torch.eye(4).expand(5, 4, 4), g.trajectory().intrinsics, g.WIDTH, g.HEIGHT)
    actual = latitude_up(g.rows(trajectory))[0]
    directions = g.rows(trajectory)[0, :, :3]
    torch.testing.assert_close(actual[:, 2], torch.asin(-directions[:, 1]))
    above = directions[:, 1] < 0
    assert (actual[above, 2] > 0).all() and (actual[~above, 2] < 0).all()
    assert (actual[:, 1] < 0).all()  # up is towards the top of the image, where y is small


@pytest.mark.parametrize("name", METHODS)
def test_tokens_without_a_camera_keep_their_output_and_the_start_is_zero(name):
    layer, (output, state) = g.trained(METHODS[name]), attention_inputs()
    assert torch.equal(layer("output", output, state, torch.zeros(1, g.TOKENS, 90, dtype=torch.float64)), output)
    torch.manual_seed(0)
    fresh = METHODS[name].layer(g.DIM, g.HEADS).double()
    assert torch.equal(fresh("output", output, state, g.rows(TRAJECTORIES["pinhole"])), output)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: Prope("half"), "branch is 'half'"),
        (lambda: Prope(ratio=2), "ratio is 2: expected 1 for branch 'shared'"),
        (lambda: Prope(qk_norm=True), "qk_norm is given: expected branch 'own'"),
        (lambda: Prope(lens=(0.5, 0.0)), "lens is .*: expected fx / width and fy / height, above 0"),
        (lambda: Prope("own", ratio=3).layer(48, 2), "ratio is 3: expected a divisor of the model's 2 heads"),
        (lambda: Prope(whole_heads=True).layer(20, 2), "head_dim is 10: expected a multiple of 4"),
        (lambda: Gta(translation=math.inf), "translation is inf"),
        (lambda: Ucpe(ratio=0), "ratio is 0"),
        (lambda: Ucpe(latitude_up="yes"), "latitude_up is 'yes'"),
        (lambda: Ucpe(ratio=8).layer(96, 4), "ratio is 8: expected a divisor of the layer's 4 heads"),
        (lambda: Prope().layer(24, 2), "head_dim is 12: expected a multiple of 8"),
        (lambda: Gta().layer(24, 2), "head_dim is 12: expected a multiple of 8"),
        (lambda: Ucpe(ratio=1).layer(24, 2), "head_dim is 12: expected a multiple of 8"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(SightlineError, match=sentence):
        make()
