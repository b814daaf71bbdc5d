"""Which layers a clone keeps, and that every key that tells layers apart follows."""

from typing import Any

import pytest

from autoadapter.probe.workers.clone.depth import choose_depth
from autoadapter.probe.workers.clone.shrink import shrink

WINDOWED = ["sliding_attention"] * 5 + ["full_attention"]


def layers(count: int, **keys: Any) -> tuple[int, ...]:
    return choose_depth({"num_hidden_layers": count, **keys}).sources


@pytest.mark.parametrize(
    ("count", "keys", "expected"),
    [
        (32, {}, (0, 1, 2, 3)),
        (3, {}, (0, 1, 2)),
        (61, {"first_k_dense_replace": 3}, (0, 3, 4, 5)),
        (30, {"layer_types": WINDOWED * 5}, (0, 1, 2, 3, 4, 5)),
        (32, {"attn_layer_period": 8, "expert_layer_period": 2}, tuple(range(8))),
        (48, {"sliding_window_pattern": 4, "first_k_dense_replace": 1}, (0, 1, 2, 3, 4)),
        (26, {"block_types": ["recurrent", "recurrent", "attention"]}, tuple(range(6))),
        (35, {"layer_types": (WINDOWED[1:] * 7), "num_kv_shared_layers": 15}, tuple(range(5)) + tuple(range(20, 25))),
    ],
)
def test_layers(count: int, keys: dict[str, Any], expected: tuple[int, ...]) -> None:
    """One period of each stretch of layers, in phase, and at least four."""
    assert layers(count, **keys) == expected


def test_an_irregular_list_shows_every_kind_twice() -> None:
    """No period: the shortest start that has each kind twice, or as often as there are."""
    kinds = list("MMAMMMAMAMMMMAEMMMMMMAMAMMMMMMMMMMAM")
    assert layers(len(kinds), layers_block_type=kinds) == tuple(range(15))


def test_a_last_layer_of_its_own_is_reached_in_phase() -> None:
    """25 layers: a period of six, the last one full whatever the period says."""
    kinds = [*WINDOWED * 4, "full_attention"]
    assert layers(25, layer_types=kinds)[-1] == 24
    assert [kinds[layer] for layer in layers(25, layer_types=kinds)][:6] == WINDOWED


def test_keys_follow_the_layers() -> None:
    """Lists are cut, counts count the layers that are left, numbers of layers are renumbered."""
    small, depth = shrink(
        {
            "num_hidden_layers": 12,
            "first_k_dense_replace": 3,
            "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 9,
            "max_window_layers": 12,
            "moe_layer_end_index": 11,
            "full_attn_idxs": list(range(12)),
            "per_layer_config": {"03": {"head_dim": 512}},
        }
    )
    assert depth.sources == (0, 3, 4, 5)
    assert small["num_hidden_layers"] == 4
    assert small["first_k_dense_replace"] == 1
    assert small["mlp_layer_types"] == ["dense", "sparse", "sparse", "sparse"]
    assert small["max_window_layers"] == 4
    assert small["moe_layer_end_index"] == 3
    assert small["full_attn_idxs"] == [0, 1, 2, 3]
    assert list(small["per_layer_config"]) == ["01"]
