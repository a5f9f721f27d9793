"""How much goes: what a person asks for, what a config can do, and where least is lost."""

import dataclasses

import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.costs import costs
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.prune.budget import (
    Budget,
    bytes_per_token,
    choose_removal,
    flops,
    megabytes,
    parameters,
)
from edgeformer.nn.prune.decoder import prune_decoder
from edgeformer.nn.prune.removal import Removal, parse_removal, pruned_config, widths
from tests.nn.choices import CHOICES, PLAIN, random_decoder

IDS = torch.randint(96, (6, 20), generator=torch.Generator().manual_seed(4))
MANY = dataclasses.replace(PLAIN, d_ff=480, n_layers=8, n_heads=6, head_dim=8, n_kv_heads=3)


@pytest.mark.parametrize(
    "text, multiple, wanted",
    [
        ("ff=0.25", 32, Removal(ff=128)),  # 360 stay, the nearest multiple is 352
        ("ff=0.25", 1, Removal(ff=120)),
        ("ff=100", 32, Removal(ff=96)),
        ("kv=1,layers=2", 32, Removal(kv=1, layers=2)),
        ("layers=0.25, kv=0.34,ff=0", 32, Removal(kv=1, layers=2)),
    ],
)
def test_what_is_asked_for_is_a_share_or_a_count(text, multiple, wanted):
    assert parse_removal(text, MANY, multiple) == wanted


@pytest.mark.parametrize(
    "name, text, reason",
    [
        ("gqa", "heads=1", "--remove has 'heads=1'"),
        ("gqa", "ff", "--remove has 'ff'"),
        ("gqa", "ff=-3", "--remove has 'ff=-3'"),
        ("gqa", "ff=nan", "--remove has 'ff=nan'"),
        ("gqa", "kv=1.5", "--remove has 'kv=1.5'"),
        ("gqa", "ff=4", "removes nothing: the model has d_ff 48 .kept in multiples of 32"),
        ("gqa", "ff=48", "ff=48: the model has 48, and at least one must stay"),
        ("gqa", "kv=2", "kv=2: the model has 2, and at least one must stay"),
        ("gqa", "layers=2", "layers=2: the model has 2"),
        ("mqa", "kv=1", "all 4 query heads read the model's only KV head"),
        ("alibi", "kv=1", "ALiBi's slopes follow from the number of heads .4."),
    ],
)
def test_what_cannot_go_is_refused_by_name(name, text, reason):
    with pytest.raises(EdgeformerError, match=reason):
        parse_removal(text, CHOICES[name], 32)


def test_the_width_of_a_feed_forward_is_cut_to_multiples():
    assert widths(480, 128) == [384, 256, 128]
    assert widths(256, 128) == [128]
    assert widths(100, 128) == []


def test_lists_by_layer_lose_the_layers_that_go():
    c = CHOICES["rope-two-thetas"]
    cut = pruned_config(c, Removal(layers=1), [0, 2])
    assert (cut.window, cut.rope_layers, cut.local_rope) == ((6, 6), ("local",) * 2, c.local_rope)
    cut = pruned_config(c, Removal(layers=2), [1])
    assert (cut.window, cut.rope_layers, cut.local_rope) == ((None,), ("global",), None)


@pytest.mark.parametrize("name", ["gqa", "tied", "learned-offset", "all-biases"])
def test_a_token_reads_every_weight_but_the_tables_and_all_the_cache(name):
    c = CHOICES[name]
    read = {
        key: p.numel()
        for key, p in Decoder(c).named_parameters()
        if not key.startswith("position_embedding")
        and (c.tie_embeddings or not key.startswith("embedding."))
    }
    cache = 2 * c.n_layers * c.max_positions * c.n_kv_heads * c.head_dim * 4
    assert bytes_per_token(c, "fp32") == 4 * sum(read.values()) + cache
    assert bytes_per_token(c, "fp16") == 2 * sum(read.values()) + cache


def test_the_other_budgets_are_those_of_the_table_of_presets():
    found = costs(PLAIN)
    assert parameters(PLAIN) == found.parameters
    assert megabytes(PLAIN, "fp16") == found.weight_bytes["fp16"] / 1e6
    assert flops(PLAIN) == found.flops_per_token


def silent(kind):
    """A model in which parts of this kind can go for nothing."""
    decoder = random_decoder(dataclasses.replace(PLAIN, n_layers=3, d_ff=96), 1)
    with torch.no_grad():
        for i, block in enumerate(decoder.blocks):
            if kind == "ff":
                block.ff.down.weight[:, 32:] = 0.0
            if kind == "kv":
                block.attention.out.weight[:, :16] = 0.0
            if kind == "layers" and i in (1, 2):
                block.attention.out.weight.zero_()
                block.ff.down.weight.zero_()
    return decoder


@pytest.mark.parametrize(
    "kind, wanted", [("ff", Removal(ff=64)), ("kv", Removal(kv=1)), ("layers", Removal(layers=2))]
)
def test_the_kind_goes_that_is_missed_least_and_no_more_than_is_asked(kind, wanted):
    decoder = silent(kind)
    limit = parameters(pruned_config(decoder.config, wanted))
    budget = Budget("parameters", limit, parameters)
    removal, trials = choose_removal(decoder, budget, 32, IDS)
    assert removal == wanted
    assert {kind for t in trials for kind, n in t.removal._asdict().items() if n} >= {"ff", "kv"}
    taken = [t for t in trials if t.taken]
    with torch.no_grad():  # calibrated on the first half, and never on what it is judged by
        worst = max(trials, key=lambda trial: trial.kl)
        made, _ = prune_decoder(decoder, worst.removal, IDS[:3])
        whole, part = (model(IDS[3:]).softmax(-1) for model in (decoder, made))
    lost = (whole * (whole / part).log()).sum(-1).mean()
    assert worst.kl == pytest.approx(float(lost), rel=1e-3)
    assert taken[-1].kl < 1e-5 < worst.kl
    assert taken[-1].removal == removal
    assert taken[-1].cost <= limit


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_a_budget_is_kept(share):
    decoder = silent("ff")
    limit = share * flops(decoder.config)
    removal, _ = choose_removal(decoder, Budget("FLOP", limit, flops), 32, IDS)
    assert flops(pruned_config(decoder.config, removal)) <= limit


def test_the_last_step_saves_no_more_than_it_must_where_more_would_lose_more():
    decoder = silent("")
    limit = parameters(pruned_config(decoder.config, Removal(ff=1)))
    budget = Budget("parameters", limit, parameters)
    removal, trials = choose_removal(decoder, budget, 1, IDS)
    assert {t.removal for t in trials} >= {Removal(ff=1), Removal(kv=1), Removal(layers=1)}
    assert removal == Removal(ff=1)


def test_a_budget_that_is_met_or_beyond_reach_is_said_with_its_numbers():
    decoder = random_decoder(PLAIN, 1)
    now = parameters(PLAIN)
    for limit, reason in ((now, "already; ask for fewer"), (3000, "cannot be reached: with all")):
        with pytest.raises(EdgeformerError, match=reason) as error:
            choose_removal(decoder, Budget("parameters", limit, parameters), 16, IDS)
        assert f"{limit:,.6g} " in str(error.value)
