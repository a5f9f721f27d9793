"""Cut models of every choice of a config: against the whole one, and against a cut by hand."""

import dataclasses

import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import GATED
from edgeformer.nn.decoder import Decoder, FullAttention
from edgeformer.nn.prune.decoder import prune_decoder
from edgeformer.nn.prune.layers import divergences, influences, layers_to_keep
from edgeformer.nn.prune.removal import Removal
from tests.nn.choices import CHOICES, PLAIN, choice_decoder, random_decoder
from tests.nn.references import error

EVERY = pytest.mark.parametrize("name", CHOICES)
IDS = torch.randint(96, (3, 20), generator=torch.Generator().manual_seed(4))
GONE = (1, 5, 6, 7, 20, 47)  # neurons
# One of each shape of a block; the test of all kinds at once takes every choice.
SHAPES = (
    "gqa",
    "mqa",
    "rope-two-thetas",
    "alibi-gqa",
    "norm-post",
    "norm-sandwich",
    "relu",
    "qk-norm-head",
    "qk-norm-heads",
    "qk-norm-full",
    "all-biases",
    "parallel-one-norm",
    "tied-head-bias",
    "like-gpt2",
    "like-gemma",
)
SHAPE = pytest.mark.parametrize("name", SHAPES)
# Fewer heads: other ALiBi slopes, or another mean under a norm over all of them; MQA has no two.
OTHER_WITH_FEWER_HEADS = ("alibi", "mqa", "qk-norm-full")


def logits(decoder):
    with torch.no_grad():
        return decoder(IDS)


def silent(name, neurons=(), group=None, layer=None):
    """The choice's model, in which these parts add nothing to what comes after them."""
    decoder = choice_decoder(name)
    c = decoder.config
    wide = c.n_heads // c.n_kv_heads * c.head_dim
    with torch.no_grad():
        for i, block in enumerate(decoder.blocks):
            block.ff.down.weight[:, list(neurons)] = 0.0
            if group is not None:
                block.attention.out.weight[:, group * wide : (group + 1) * wide] = 0.0
            if i == layer:
                for part in (block.attention.out, block.ff.down):
                    part.weight.zero_()
                    if part.bias is not None:
                        part.bias.zero_()
    return decoder


@SHAPE
def test_pruning_nothing_gives_the_same_bits_in_memory_of_its_own(name):
    decoder = choice_decoder(name)
    before = logits(decoder)
    made, kept = prune_decoder(decoder, Removal(), IDS)
    assert made.config == decoder.config
    assert torch.equal(logits(made), before)
    assert kept.layers == list(range(decoder.config.n_layers))
    ours = {p.data_ptr() for p in decoder.parameters()}
    assert not ours & {p.data_ptr() for p in made.parameters()}
    assert all(p.requires_grad for p in made.parameters())


@SHAPE
def test_neurons_whose_output_is_not_used_go_and_nothing_changes(name):
    decoder = silent(name, GONE)
    before = logits(decoder)
    made, kept = prune_decoder(decoder, Removal(ff=len(GONE)), IDS)
    assert made.config.d_ff == 48 - len(GONE)
    assert all(set(range(48)) - set(neurons) == set(GONE) for neurons in kept.neurons)
    assert error(logits(made), before) < 1e-5
    assert torch.equal(logits(decoder), before)


@pytest.mark.parametrize("name", [n for n in SHAPES if not n.startswith(OTHER_WITH_FEWER_HEADS)])
def test_a_kv_group_whose_output_is_not_used_goes_and_nothing_changes(name):
    group = 1 if CHOICES[name].n_kv_heads == 2 else 2
    decoder = silent(name, group=group)
    before = logits(decoder)
    made, kept = prune_decoder(decoder, Removal(kv=1), IDS)
    c, was = made.config, decoder.config
    assert (c.n_kv_heads, c.head_dim) == (was.n_kv_heads - 1, was.head_dim)
    assert c.n_heads == was.n_heads - was.n_heads // was.n_kv_heads
    assert all(group not in groups for groups in kept.groups)
    assert error(logits(made), before) < 1e-5
    assert torch.equal(logits(decoder), before)


@pytest.mark.parametrize("name", [n for n in SHAPES if n != "norm-post"])
def test_a_layer_that_adds_nothing_goes_and_nothing_changes(name):
    decoder = silent(name, layer=1)
    if decoder.config.norm_placement == "sandwich":  # a layernorm there would add its bias
        assert decoder.config.norm == "rmsnorm"
    before = logits(decoder)
    made, kept = prune_decoder(decoder, Removal(layers=1), IDS)
    assert kept.layers == [i for i in range(decoder.config.n_layers) if i != 1]
    assert torch.equal(logits(made), before)


def hand_cut(decoder, kept, config):
    """The kept parts, gathered head by head and neuron by neuron; `out` and `down` as they were."""
    c, made = decoder.config, Decoder(config)
    state = {k: v for k, v in decoder.state_dict().items() if not k.startswith("blocks.")}
    d, per_group = c.head_dim, c.n_heads // c.n_kv_heads
    for new, old in enumerate(kept.layers):
        mine = {
            key.removeprefix(f"blocks.{old}."): value
            for key, value in decoder.state_dict().items()
            if key.startswith(f"blocks.{old}.")
        }
        queries = [g * per_group + i for g in kept.groups[new] for i in range(per_group)]
        keys = kept.groups[new]
        heads = [*queries, *(c.n_heads + g for g in keys)]
        heads += [c.n_heads + c.n_kv_heads + g for g in keys]
        neurons = list(kept.neurons[new])
        for key, value in mine.items():
            if key.startswith("attention.qkv"):
                mine[key] = torch.cat([value[h * d : h * d + d] for h in heads])
            elif key == "attention.out.weight":
                mine[key] = torch.cat([value[:, h * d : h * d + d] for h in queries], 1)
            elif "_norm" in key and c.qk_norm in ("heads", "full") and "q_norm" in key:
                parts = value.reshape(c.n_heads, d)[queries]
                mine[key] = parts if c.qk_norm == "heads" else parts.flatten()
            elif "_norm" in key and c.qk_norm in ("heads", "full") and "k_norm" in key:
                parts = value.reshape(c.n_kv_heads, d)[keys]
                mine[key] = parts if c.qk_norm == "heads" else parts.flatten()
            elif key.startswith("ff.up"):
                gated = [48 + n for n in neurons] if c.feed_forward in GATED else []
                mine[key] = torch.stack([value[n] for n in neurons + gated])
            elif key == "ff.down.weight":
                mine[key] = torch.stack([value[:, n] for n in neurons], 1)
        state |= {f"blocks.{new}.{key}": value for key, value in mine.items()}
    made.load_state_dict(state)
    return made.eval()


def hand_config(c, kept):
    """Lists by layer follow the layers; written out once more, not taken from the code."""
    groups, changes = len(kept.groups[0]), {}
    if isinstance(c.window, tuple):
        changes["window"] = tuple(c.window[i] for i in kept.layers)
    if c.rope_layers is not None:
        left = changes["rope_layers"] = tuple(c.rope_layers[i] for i in kept.layers)
        changes["local_rope"] = c.local_rope if "local" in left else None
    return dataclasses.replace(
        c,
        n_layers=len(kept.layers),
        d_ff=len(kept.neurons[0]),
        n_kv_heads=groups,
        n_heads=c.n_heads // c.n_kv_heads * groups,
        **changes,
    )


@EVERY
def test_all_kinds_at_once_are_what_a_cut_by_hand_gives(name):
    """All outputs that go are zero, so that nothing is made up for and the weights are known."""
    c = CHOICES[name]
    heads = not name.startswith(("alibi", "mqa"))
    group = (1 if c.n_kv_heads == 2 else 2) if heads else None
    decoder = silent(name, GONE, group)
    removal = Removal(ff=len(GONE), kv=int(heads), layers=1)
    made, kept = prune_decoder(decoder, removal, IDS)
    assert len(kept.layers) == c.n_layers - 1
    assert made.config == hand_config(c, kept)
    wanted = hand_cut(decoder, kept, made.config)
    assert error(logits(made), logits(wanted)) < 1e-5
    for key, value in wanted.state_dict().items():
        torch.testing.assert_close(made.state_dict()[key], value)


@pytest.mark.parametrize(
    "name", ["gqa", "all-biases", "like-gpt2", "like-gemma", "parallel-one-norm"]
)
@pytest.mark.parametrize("removal", [Removal(ff=16), Removal(kv=1)])
def test_what_stays_makes_up_for_part_of_what_went(name, removal):
    ids = torch.randint(96, (40, 40), generator=torch.Generator().manual_seed(7))
    decoder = choice_decoder(name)
    made, kept = prune_decoder(decoder, removal, ids)
    plain = hand_cut(decoder, kept, made.config)
    with torch.no_grad():
        whole, ours, theirs = (model(ids[:8]) for model in (decoder, made, plain))
    assert (ours - whole).square().mean() < 0.95 * (theirs - whole).square().mean()


def test_a_feed_forward_is_refitted_to_what_comes_from_the_cut_attention_before_it():
    """The errors of the record, from the inputs that the cut model's own parts see."""
    decoder = choice_decoder("all-biases")
    made, kept = prune_decoder(decoder, Removal(ff=16, kv=1), IDS)
    for new, old, neurons, lost in zip(
        made.blocks, decoder.blocks, kept.neurons, kept.ff_errors, strict=True
    ):
        seen = []
        handle = new.ff.register_forward_pre_hook(
            lambda _, inputs, into=seen: into.append(inputs[0])
        )
        logits(made)
        handle.remove()
        with torch.no_grad():
            whole, cut = old.ff(seen[0]), new.ff(seen[0])
        assert len(neurons) == 32
        share = (whole - cut).square().sum() / whole.square().sum()
        assert lost == pytest.approx(float(share), rel=1e-3)


def without(decoder, gone):
    """The decoder as its blocks stand, one of them left out: not by the code under test."""
    kept = [i for i in range(len(decoder.blocks)) if i != gone]
    config = dataclasses.replace(decoder.config, n_layers=len(kept))
    made = Decoder(config).eval()
    made.load_state_dict(
        {k: v for k, v in decoder.state_dict().items() if not k.startswith("blocks.")}
        | {
            f"blocks.{new}.{k}": v
            for new, old in enumerate(kept)
            for k, v in decoder.blocks[old].state_dict().items()
        }
    )
    return made


def test_of_the_four_least_influential_layers_the_one_goes_that_is_missed_least():
    decoder = random_decoder(dataclasses.replace(PLAIN, n_layers=6), 7)
    found = influences(decoder, list(range(6)), IDS)
    tried = sorted(range(6), key=found.get)[:4]
    whole, missed = logits(decoder).softmax(-1), {}
    for gone in tried:
        other = logits(without(decoder, gone)).softmax(-1)
        missed[gone] = float((whole * (whole / other).log()).sum(-1).mean())
    keeps = layers_to_keep(decoder, 1, IDS, lambda what: None)
    assert set(range(6)) - set(keeps) == {min(missed, key=missed.get)}
    assert min(missed, key=missed.get) != tried[0], "take another seed: influence alone knows it"
    choices = [[i for i in range(6) if i != gone] for gone in tried]
    assert divergences(decoder, choices, IDS) == pytest.approx([*missed.values()], rel=1e-4)


def test_the_influence_of_a_layer_is_how_far_it_turns_the_residual():
    decoder = random_decoder(PLAIN, 3)
    x = decoder.embed(IDS[0], torch.arange(20))
    rotary, attend = decoder.rotary(torch.arange(20)), FullAttention(decoder, 1, 20)
    with torch.no_grad():
        y = decoder.blocks[0](x, rotary["global"], attend)
    turned = 1 - (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1))
    with torch.no_grad():
        assert influences(decoder, [0], IDS[:1])[0] == pytest.approx(float(turned.mean()))


def test_values_that_are_no_numbers_are_refused_by_layer():
    decoder = choice_decoder("relu")
    with torch.no_grad():
        decoder.blocks[1].ff.up.weight.fill_(3e38)
    with pytest.raises(EdgeformerError, match="layer 1 gives values that are no numbers"):
        prune_decoder(decoder, Removal(ff=4), IDS)
