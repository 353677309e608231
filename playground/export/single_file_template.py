"""A whole run in one file, with every switch as an `if` on a constant: exports are cut from it.

`single_file.py` puts a run's values in place of the constants, keeps the branches that the run
takes and leaves out what nobody uses then. This file is Python like any other: by itself it
trains the default run. Each kind of number is drawn and added up in the order of `core`, which a
test compares with it digit for digit.

A new position, mask, norm … is a branch here, a new task one in the task's section.
"""

import hashlib
import math
import re
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache
from pydoc_data.topics import topics
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

TASK = "reverse"
if TASK == "text":
    LENGTH = 64  # characters that the model sees at once
    WIDTH = LENGTH + 1 if ARCHITECTURE == "decoder" else LENGTH  # of a training window
elif TASK == "gaps":
    LENGTH = 64  # characters that the model sees at once
    WIDTH = LENGTH
    SHARE = 0.15  # of the characters are chosen, and asked for
    HIDDEN = 0.8  # of the chosen ones are hidden
    SWAPPED = 0.1  # of the chosen ones become a random character
elif TASK == "add":
    SYMBOLS = 10  # base of the numbers
    LENGTH = 2  # digits of each number
elif TASK == "recall":
    SYMBOLS = 8  # different values
    LENGTH = 4  # pairs in a question
elif TASK == "distance":
    SYMBOLS = 8  # different values
    DISTANCE = 16  # letters between the value and the question
    MIXED = False
elif TASK == "numbers":
    LENGTH = 5  # digits of the longest number
else:
    SYMBOLS = 10  # different symbols
    LENGTH = 10  # symbols in a question
VARY = False
PADDED = False  # rows differ in length: some end in padding
SOURCE = "docs"
ARCHITECTURE = "decoder"
VOCAB_SIZE = 12  # different tokens
MAX_LEN = 20  # tokens in the longest sequence
D_MODEL = 64  # width of the residual stream: numbers per token
N_HEADS = 4
D_HEAD = D_MODEL // N_HEADS  # columns per head
N_LAYERS = 2
D_FF = 256  # width inside the feed-forward
SCALE = "sqrt_d_head"
POSITION = "sinusoidal"
MASK = "causal"
WINDOW = 4  # keys that a query sees, itself counted
PAD_MASK = True
RESIDUAL = True
NORM = "post"
NORM_TYPE = "layer"
FFN = True
GATED = False
ACTIVATION = "relu"
INIT = "xavier"
TIE_EMBEDDINGS = False

STEPS = 300
PLANNED_STEPS = 300  # the length that the learning rate's schedule reckons with
BATCH_SIZE = 32
OPTIMIZER = "adamw"
LR = 0.001  # the learning rate, at its peak
SCHEDULE = "constant"
WARMUP = 0  # steps over which the learning rate rises
WEIGHT_DECAY = 0.01
CLIP = 1.0  # the largest gradient norm
LABEL_SMOOTHING = 0.0  # share of each target that is spread over the whole vocabulary
PRECISION = "fp32"
SEED = 0  # decides the initial weights and the batches
DEVICE = "cpu"
THREADS = 1  # another number would change the last digits of sums
TURNED = frozenset()  # constants that change during the run

PAD = 0  # the token that fills up short rows: never scored
IGNORED = -100  # a target that is not scored

torch.set_num_threads(THREADS)
torch.set_flush_denormal(True)  # numbers below 1e-38 would take ten times as long


# --- attention: softmax(q kᵀ · scale + bias) v ----------------------------------------------
def split_heads(x):
    """[batch, length, d_model] -> [batch, heads, length, d_head]: to each head its own columns."""
    return x.unflatten(-1, (N_HEADS, -1)).transpose(1, 2)


def attention(q, k, v, bias):
    """Each query takes the mean of the values, weighted by how well their keys fit.

    In one fused call what could be spelled out as
    `(q @ k.transpose(-2, -1) * scale + bias).softmax(-1) @ v`.
    """
    if SCALE == "sqrt_d_head":
        scale = D_HEAD**-0.5  # q·k is a sum of d_head products: this keeps its spread near 1
    elif SCALE == "sqrt_d_model":
        scale = D_MODEL**-0.5
    elif SCALE == "d_head":
        scale = 1 / D_HEAD
    else:
        scale = 1.0
    if PRECISION != "fp32" and bias is not None:
        bias = bias.to(q.dtype)
    z = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
    if PADDED and PAD_MASK and MASK == "window":
        z = z * (bias.amax(-1, keepdim=True) > UNSEEN)  # a query that sees nothing takes nothing
    return z.transpose(1, 2).flatten(2)  # the heads' columns side by side again


class SelfAttention(nn.Module):
    """Several heads look at the same sequence, each in its own columns."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D_MODEL, 3 * D_MODEL)  # W_q, W_k and W_v on top of each other
        self.out = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x, bias):  # x: [batch, length, d_model]
        q, k, v = (split_heads(part) for part in self.qkv(x).chunk(3, dim=-1))
        if POSITION == "rotary":
            q, k = rotate(q), rotate(k)
        return self.out(attention(q, k, v, bias))


class CrossAttention(nn.Module):
    """Queries from the decoder's sequence, keys and values from what the encoder has read."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(D_MODEL, D_MODEL)
        self.kv = nn.Linear(D_MODEL, 2 * D_MODEL)
        self.out = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x, memory, bias):  # x: [batch, target, d_model]
        k, v = (split_heads(part) for part in self.kv(memory).chunk(2, dim=-1))
        return self.out(attention(split_heads(self.q(x)), k, v, bias))


# --- masks: which keys a query may see ------------------------------------------------------
if PRECISION == "bf16":
    DTYPE = torch.bfloat16
elif PRECISION == "fp16":
    DTYPE = torch.float16
# Beside any other score it gets the weight 0, exactly; yet it is finite: nothing becomes nan.
UNSEEN = torch.finfo(torch.float32 if PRECISION == "fp32" else DTYPE).min / 2


def attention_bias(tokens):
    """What is added to the scores: 0 where a query sees a key, UNSEEN elsewhere: [query, key]."""
    length = tokens.shape[1]
    query = torch.arange(length, device=DEVICE)[:, None]
    key = torch.arange(length, device=DEVICE)[None, :]
    if MASK == "causal":
        allowed = key <= query  # itself and everything before it: nothing from the future
    elif MASK == "window":
        allowed = (key <= query) & (query - key < WINDOW)  # the last few, itself counted
    else:
        allowed = torch.ones_like(query + key, dtype=torch.bool)  # everything, the future included
    if PADDED and PAD_MASK:
        allowed = allowed & (tokens != PAD)[:, None, None, :]  # now [batch, 1, query, key]
    if POSITION == "alibi":
        return torch.where(allowed, 0.0, UNSEEN) + alibi(length)
    else:
        return torch.where(allowed, 0.0, UNSEEN)


def padding_bias(source):
    """Every query reads the whole source, both ways, but not its padding: [batch, 1, 1, key]."""
    return torch.where((source != PAD)[:, None, None, :], 0.0, UNSEEN)


# --- positions: attention by itself does not know the order of the tokens -------------------
def sinusoids(length):
    """Sines and cosines of falling frequency: [length, d_model] (Vaswani et al. 2017, 3.5)."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, D_MODEL, 2, dtype=torch.float64)
    angle = position * torch.exp(-math.log(10_000.0) * even / D_MODEL)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :D_MODEL].float()


class LearnedPositions(nn.Module):
    """One learnt vector per position."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.empty(MAX_LEN, D_MODEL))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


def rotate(x):
    """Turn each pair of columns by an angle that grows with the position (RoFormer, eq. 34).

    A query and a key turned so meet at an angle that depends on their distance only.
    """
    even = torch.arange(0, D_HEAD, 2, dtype=torch.float64)
    frequency = (10_000.0 ** (-even / D_HEAD)).float().to(DEVICE)
    position = torch.arange(x.shape[2], device=DEVICE, dtype=torch.float32)
    angle = position[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def alibi(length):
    """Lower each score in proportion to the distance of query and key (Press et al. 2022).

    Each head has its own slope: powers of 2^(-8/n_heads), where n_heads is a power of two.
    """
    power = 2 ** math.floor(math.log2(N_HEADS))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    slopes += [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * (N_HEADS - power), 2)]
    position = torch.arange(length, device=DEVICE)
    distance = (position[:, None] - position[None, :]).abs()
    return -torch.tensor(slopes, device=DEVICE)[None, :, None, None] * distance


class Embedding(nn.Module):
    """Tokens become vectors that also know where they are."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB_SIZE, D_MODEL)
        if POSITION == "learned":
            self.position = LearnedPositions()
        if POSITION == "sinusoidal":
            self.waves = sinusoids(MAX_LEN).to(DEVICE)

    def forward(self, tokens):  # [batch, length]
        x = self.tokens(tokens)  # [batch, length, d_model]
        if INIT == "xavier":
            x = x * math.sqrt(D_MODEL)  # the table starts small: about N(0, 1) from here on
        if POSITION == "sinusoidal":
            x = x + self.waves[: tokens.shape[1]]
        if POSITION == "learned":
            x = self.position(x)
        return x


# --- blocks ---------------------------------------------------------------------------------
def rms_norm():
    """Divides each token's numbers by their root mean square, and multiplies them by a gain."""
    return nn.RMSNorm(D_MODEL, eps=1e-5)


class FeedForward(nn.Module):
    """The same two-layer network at every position."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(D_MODEL, D_FF)
        self.out = nn.Linear(D_FF, D_MODEL)
        if GATED:
            self.gate = nn.Linear(D_MODEL, D_FF)

    def forward(self, x):
        hidden = self.gate(x) if GATED else self.inner(x)  # [batch, length, d_ff]
        if ACTIVATION == "relu":
            hidden = F.relu(hidden)
        elif ACTIVATION == "gelu":
            hidden = F.gelu(hidden)
        else:
            hidden = F.silu(hidden)
        return self.out(hidden * self.inner(x) if GATED else hidden)


class Block(nn.Module):
    """Self-attention moves information between positions; the feed-forward works on each alone."""

    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        if NORM != "none":
            self.attention_norm = nn.LayerNorm(D_MODEL) if NORM_TYPE == "layer" else rms_norm()
        if FFN:
            self.ffn = FeedForward()
        if FFN and NORM != "none":
            self.ffn_norm = nn.LayerNorm(D_MODEL) if NORM_TYPE == "layer" else rms_norm()

    def forward(self, x, bias):
        y = self.attention(self.attention_norm(x) if NORM == "pre" else x, bias)
        if NORM == "post":
            x = self.attention_norm(x + y if RESIDUAL else y)
        else:
            x = x + y if RESIDUAL else y
        if FFN:
            y = self.ffn(self.ffn_norm(x) if NORM == "pre" else x)
            if NORM == "post":
                x = self.ffn_norm(x + y if RESIDUAL else y)
            else:
                x = x + y if RESIDUAL else y
        return x


class CrossBlock(Block):
    """The block of the decoder: in between, it reads what the encoder has made of the source."""

    def __init__(self):
        super().__init__()
        self.cross = CrossAttention()
        if NORM != "none":
            self.cross_norm = nn.LayerNorm(D_MODEL) if NORM_TYPE == "layer" else rms_norm()

    def forward(self, x, bias, memory, memory_bias):
        y = self.attention(self.attention_norm(x) if NORM == "pre" else x, bias)
        if NORM == "post":
            x = self.attention_norm(x + y if RESIDUAL else y)
        else:
            x = x + y if RESIDUAL else y
        y = self.cross(self.cross_norm(x) if NORM == "pre" else x, memory, memory_bias)
        if NORM == "post":
            x = self.cross_norm(x + y if RESIDUAL else y)
        else:
            x = x + y if RESIDUAL else y
        if FFN:
            y = self.ffn(self.ffn_norm(x) if NORM == "pre" else x)
            if NORM == "post":
                x = self.ffn_norm(x + y if RESIDUAL else y)
            else:
                x = x + y if RESIDUAL else y
        return x


# --- the model ------------------------------------------------------------------------------
class Encoder(nn.Module):
    """The stack beside the decoder: it reads the whole source, both ways."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(N_LAYERS))
        if NORM == "pre":
            self.norm = nn.LayerNorm(D_MODEL) if NORM_TYPE == "layer" else rms_norm()

    def forward(self, x, bias):
        for block in self.blocks:
            x = block(x, bias)
        return self.norm(x) if NORM == "pre" else x


class Transformer(nn.Module):
    """Embed, pass through the blocks, read off the logits."""

    def __init__(self):
        super().__init__()
        self.embed = Embedding()
        if ARCHITECTURE == "encoder-decoder":
            self.blocks = nn.ModuleList(CrossBlock() for _ in range(N_LAYERS))
        elif ARCHITECTURE == "gru":
            layers = (nn.GRU(D_MODEL, D_MODEL, batch_first=True) for _ in range(N_LAYERS))
            self.blocks = nn.ModuleList(layers)
        elif ARCHITECTURE == "lstm":
            layers = (nn.LSTM(D_MODEL, D_MODEL, batch_first=True) for _ in range(N_LAYERS))
            self.blocks = nn.ModuleList(layers)
        else:
            self.blocks = nn.ModuleList(Block() for _ in range(N_LAYERS))
        if NORM == "pre":
            self.norm = nn.LayerNorm(D_MODEL) if NORM_TYPE == "layer" else rms_norm()
        self.unembed = nn.Linear(D_MODEL, VOCAB_SIZE, bias=False)
        if TIE_EMBEDDINGS:
            self.unembed.weight = self.embed.tokens.weight
        if ARCHITECTURE == "encoder-decoder":
            self.encoder = Encoder()

    if ARCHITECTURE == "encoder-decoder":

        def forward(self, source, target):  # [batch, source], [batch, target]
            source_bias = memory_bias = None  # every position sees the whole source
            if PADDED and PAD_MASK:
                source_bias = memory_bias = padding_bias(source)
            if POSITION == "alibi":
                distance = alibi(source.shape[1])
                source_bias = source_bias + distance if PADDED and PAD_MASK else distance
            memory = self.encoder(self.embed(source), source_bias)  # [batch, source, d_model]

            x = self.embed(target)
            bias = attention_bias(target)
            for block in self.blocks:
                x = block(x, bias, memory, memory_bias)
            return self.unembed(self.norm(x) if NORM == "pre" else x)  # [batch, target, vocab]

    elif ARCHITECTURE in ("gru", "lstm"):

        def forward(self, tokens):  # [batch, length]
            x = self.embed(tokens)
            with torch.autocast(DEVICE.partition(":")[0], enabled=False):
                for block in self.blocks:
                    x, _ = block(x)  # each token rewrites the state that the next one finds
            return self.unembed(x)  # [batch, length, vocab]

    else:

        def forward(self, tokens):  # [batch, length]
            x = self.embed(tokens)
            bias = attention_bias(tokens)
            for block in self.blocks:
                x = block(x, bias)
            return self.unembed(self.norm(x) if NORM == "pre" else x)  # [batch, length, vocab]


# --- the numbers that the weights start from ------------------------------------------------
@torch.no_grad()
def initialise(model):
    """Draw each parameter from a generator of its own, seeded by (seed, parameter name).

    So models that differ in one switch start from the same numbers wherever they can.
    """
    for name, p in model.named_parameters():
        if NORM != "none" and "norm" in name:
            continue  # as built: gain 1, shift 0
        drawn_as = name.replace("unembed", "head")  # the name that seeds its numbers
        digest = hashlib.sha256(f"{SEED}/{drawn_as}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        if ARCHITECTURE in ("gru", "lstm") and name.startswith("blocks."):
            nn.init.uniform_(p, -(D_MODEL**-0.5), D_MODEL**-0.5, generator=generator)
        elif INIT == "xavier":
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif name == "embed.tokens.weight":
                nn.init.normal_(p, 0.0, D_MODEL**-0.5, generator=generator)
            elif POSITION == "learned" and name == "embed.position.table":
                nn.init.normal_(p, 0.0, 0.02, generator=generator)
            elif name.endswith("kv.weight"):
                for matrix in p.split(D_MODEL):  # W_q, W_k and W_v each as a matrix of its own
                    nn.init.xavier_uniform_(matrix, generator=generator)
            else:
                nn.init.xavier_uniform_(p, generator=generator)
        elif INIT == "gpt2":
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif name.endswith("out.weight"):  # ends a sub-layer: smaller, the more are added up
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * N_LAYERS), generator=generator)
            else:
                nn.init.normal_(p, 0.0, 0.02, generator=generator)
        elif INIT == "torch":
            if name.startswith("embed"):
                nn.init.normal_(p, 0.0, 1.0, generator=generator)
            elif FFN and name.endswith("ffn.out.bias"):
                nn.init.uniform_(p, -(D_FF**-0.5), D_FF**-0.5, generator=generator)
            elif FFN and name.endswith("bias") and ".ffn." in name:
                nn.init.uniform_(p, -(D_MODEL**-0.5), D_MODEL**-0.5, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
            elif name.endswith(("kv.weight", "cross.q.weight")):
                bound = math.sqrt(6 / (4 * D_MODEL))  # Xavier on W_q, W_k and W_v as one matrix
                nn.init.uniform_(p, -bound, bound, generator=generator)
            else:
                nn.init.kaiming_uniform_(p, a=math.sqrt(5), generator=generator)


# --- what is learnt -------------------------------------------------------------------------
if TASK in ("text", "gaps") and SOURCE == "grammar":
    from core.tasks.language import ASIDES, BRACKETS, NOUNS, START, VERBS, Edge, rules

    MOST_EDGES = 7  # in a sentence
    SHORTEST = 20  # characters of a sentence

    # A sentence that is over waits in a last state, whose one edge writes nothing.
    RULES = {**rules(), "over": [Edge(Fraction(1), "", "over")]}
    STATES = list(RULES)
    EDGES = [edge for edges in RULES.values() for edge in edges]
    VOCABULARY = ["·", *sorted({letter for edge in EDGES for letter in edge.text})]
    # All probabilities are whole numbers of tickets: drawing a ticket is drawing an edge.
    TICKETS = math.lcm(*(edge.probability.denominator for edge in EDGES))
    SHARES = torch.tensor([int(edge.probability * TICKETS) for edge in EDGES])
    DRAWN = torch.arange(len(EDGES)).repeat_interleave(SHARES)  # [states · tickets] -> edge
    LEADS_TO = torch.tensor([STATES.index("over" if e.to == START else e.to) for e in EDGES])
    LETTERS = nn.utils.rnn.pad_sequence(  # what an edge writes: [edges, letters]
        [torch.tensor([VOCABULARY.index(x) for x in e.text]).long() for e in EDGES], True, PAD
    )

    def windows(size):
        """Rows of whole sentences, each after a newline, cut off at WIDTH characters."""
        sentences = size * math.ceil((WIDTH - 1) / SHORTEST)
        tickets = torch.randint(TICKETS, (MOST_EDGES, sentences), generator=batches)
        state = torch.zeros(sentences, dtype=torch.int64)
        edges = []
        for ticket in tickets:
            edges.append(DRAWN[state * TICKETS + ticket])
            state = LEADS_TO[edges[-1]]
        rows = LETTERS[torch.stack(edges, dim=1)].view(size, -1)
        newline = torch.tensor([VOCABULARY.index("\n")])
        return torch.stack([torch.cat((newline, row[row != PAD]))[:WIDTH] for row in rows])

elif TASK in ("text", "gaps"):
    if SOURCE == "docs":
        # Python's own reference texts, in plain ASCII.
        TEXT = "\n\n".join(topics[name] for name in sorted(topics))
        SPELLED = dict(zip("“”‘’–—…ß", ['"', '"', "'", "'", "-", "-", "...", "ss"], strict=True))
        TEXT = re.sub(r"[^\n -~]", "", TEXT.translate(str.maketrans(SPELLED)))
        TEXT_SHA256 = ""
        found = hashlib.sha256(TEXT.encode()).hexdigest()
        assert found == TEXT_SHA256, "another Python's documentation is another text"
    else:
        TEXT = ""
    VOCABULARY = ["·", *sorted(set(TEXT))]
    ID_OF = {character: i for i, character in enumerate(VOCABULARY)}
    IDS = torch.tensor([ID_OF[character] for character in TEXT])
    TRAINING = IDS[: len(IDS) - max(len(IDS) // 10, WIDTH)]  # the last tenth is for validation

    def windows(size):
        """Stretches of the text from random positions: [size, WIDTH]."""
        starts = torch.randint(len(TRAINING) - WIDTH + 1, (size,), generator=batches)
        return TRAINING[starts[:, None] + torch.arange(WIDTH)]

elif TASK == "recall":
    # Pairs of a key and a value, then a key: `a3 c7 b1 → c` asks for 7.
    N_KEYS = max(SYMBOLS, LENGTH)
    KEYS = "abcdefghijklmnopqrstuvwxyz"[:N_KEYS]
    VALUES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:SYMBOLS]
    VOCABULARY = ["·", *KEYS, *VALUES, "→"]
    ARROW = N_KEYS + SYMBOLS + 1

    def draw(size, generator):
        """Random questions [size, question], whose keys differ."""
        order = torch.rand(size, N_KEYS, generator=generator).argsort(1)
        keys = order[:, :LENGTH] + 1
        values = torch.randint(SYMBOLS, keys.shape, generator=generator) + N_KEYS + 1
        asked = torch.randint(LENGTH, (size, 1), generator=generator)
        pairs = torch.stack((keys, values), dim=2).flatten(1)
        return torch.cat((pairs, torch.full((size, 1), ARROW), keys.gather(1, asked)), dim=1)

    def solve(questions):
        """The value of the key that is asked for."""
        keys, values = questions[:, :-2:2], questions[:, 1:-2:2]
        position = (keys == questions[:, -1:]).int().argmax(1, keepdim=True)
        return values.gather(1, position)

elif TASK == "distance":
    # A value, then letters that mean nothing: `7gbc→` asks for 7.
    VOCABULARY = ["·", *"0123456789"[:SYMBOLS], *"abcdefgh", "→"]
    ARROW = SYMBOLS + 9

    def draw(size, generator):
        """Random questions [size, question]."""
        rows = torch.randint(8, (size, DISTANCE + 1), generator=generator)
        rows += SYMBOLS + 1
        values = torch.randint(SYMBOLS, (size, 1), generator=generator) + 1
        place = torch.zeros(size, 1, dtype=torch.int64)
        if MIXED:
            place = torch.randint(DISTANCE + 1, (size, 1), generator=generator)
        return torch.cat((rows.scatter(1, place, values), torch.full((size, 1), ARROW)), dim=1)

    def solve(questions):
        """The value, wherever it stands."""
        return questions.gather(1, (questions <= SYMBOLS).int().argmax(1, keepdim=True))

elif TASK == "add":
    # Two numbers and their sum, which has one digit more: `47+85=132`. Digit d has id d + 1.
    VOCABULARY = ["·", *"0123456789abcdef"[:SYMBOLS], "+", "=", "_"]
    PLUS = SYMBOLS + 1
    EQUALS = SYMBOLS + 2
    SLOT = SYMBOLS + 3  # where an encoder writes a digit of the sum
    POWERS = torch.tensor([SYMBOLS**digit for digit in range(LENGTH, -1, -1)])

    def draw(size, generator):
        """Random questions [size, question]: the digits of both numbers, `+` and `=`."""
        digits = torch.randint(1, SYMBOLS + 1, (size, 2 * LENGTH), generator=generator)
        plus, equals = torch.full((size, 1), PLUS), torch.full((size, 1), EQUALS)
        return torch.cat((digits[:, :LENGTH], plus, digits[:, LENGTH:], equals), dim=1)

    def solve(questions):
        """The digits of the sum."""
        first, second = questions[:, :LENGTH] - 1, questions[:, LENGTH + 1 : -1] - 1
        total = ((first + second) * POWERS[1:]).sum(1, keepdim=True)
        return total // POWERS % SYMBOLS + 1

elif TASK in ("dates", "numbers"):
    # A question of one length, an answer of another, which ends with ■.
    if TASK == "dates":
        from core.tasks.dates import (
            FILLING,
            FIRST_DAY,
            FORMS,
            MONTH_OF,
            MONTHS,
            N_DAYS,
            NAMES,
            iso,
            written_as,
        )

        LETTERS = set(re.sub("{.*?}", "", "".join([*MONTHS, *FORMS, *FILLING])))
        VOCABULARY = ["·", *sorted(LETTERS | set("0123456789-")), "→", "■"]
        WIDEST = len("the 22nd of September, 2031")  # of all questions
        LONGEST = len("2031-09-22■")  # of all answers

        def draw(size, generator):
            """Random dates, each in one of the forms."""
            days = torch.randint(N_DAYS, (size,), generator=generator).tolist()
            forms = torch.randint(len(FORMS), (size,), generator=generator).tolist()
            drawn = zip(days, forms, strict=True)
            return rows([written_as(FIRST_DAY + timedelta(d), FORMS[i]) for d, i in drawn], WIDEST)

    else:
        from core.tasks.number_words import BELOW_TWENTY, SMALL, TENS, in_digits, in_words

        VOCABULARY = ["·", *SMALL, *TENS, "hundred", "thousand", *"0123456789", "→", "■"]
        WIDEST = len(in_words(int("373737"[-LENGTH:])).split())  # of all questions
        LONGEST = LENGTH + 1  # of all answers

        def draw(size, generator):
            """Random numbers in words; each count of digits is as probable."""
            digits = torch.randint(1, LENGTH + 1, (size,), generator=generator).tolist()
            tickets = torch.randint(9 * 10 ** (LENGTH - 1), (size,), generator=generator).tolist()
            lowest = [10 ** (n - 1) if n > 1 else 0 for n in digits]
            drawn = zip(lowest, tickets, digits, strict=True)
            return rows([in_words(low + x % (10**n - low)).split() for low, x, n in drawn], WIDEST)

    ID_OF = {token: i for i, token in enumerate(VOCABULARY)}
    ARROW = ID_OF["→"]
    END = ID_OF["■"]

    def rows(texts, length):
        """Texts as ids, filled up with padding."""
        ids = [[ID_OF[token] for token in text] for text in texts]
        return torch.tensor([row + [PAD] * (length - len(row)) for row in ids])

    def solve(questions):
        """The right answers."""
        texts = [[VOCABULARY[i] for i in row if i != PAD] for row in questions.tolist()]
        if TASK == "dates":
            return rows([iso("".join(text)) + "■" for text in texts], LONGEST)
        else:
            return rows([in_digits(" ".join(text)) + "■" for text in texts], LONGEST)

else:
    VOCABULARY = ["·", *"0123456789abcdefghijklmnopqrstuvwxyz"[:SYMBOLS], "→"]
    ARROW = SYMBOLS + 1

    def draw(size, generator):
        """Random questions: [size, LENGTH]."""
        if VARY:  # some are shorter, and filled up with padding
            questions = torch.randint(1, SYMBOLS + 1, (size, LENGTH), generator=generator)
            lengths = torch.randint((LENGTH + 1) // 2, LENGTH + 1, (size, 1), generator=generator)
            return questions.masked_fill(torch.arange(LENGTH) >= lengths, PAD)
        else:
            return torch.randint(1, SYMBOLS + 1, (size, LENGTH), generator=generator)

    if TASK == "copy":

        def solve(questions):
            """The symbols as they are."""
            return questions

    elif TASK == "sort":

        def solve(questions):
            """The symbols in order."""
            if VARY:
                last = questions.masked_fill(questions == PAD, SYMBOLS + 1)  # behind every symbol
                ordered = last.sort(1).values
                return ordered.masked_fill(ordered > SYMBOLS, PAD)
            else:
                return questions.sort(1).values

    else:

        def solve(questions):
            """The symbols backwards."""
            if VARY:  # padding stays last
                lengths = (questions != PAD).sum(1, keepdim=True)
                source = lengths - 1 - torch.arange(LENGTH)
                return questions.gather(1, source.clamp(min=0)).masked_fill(source < 0, PAD)
            else:
                return questions.flip(1)


def signed(number):
    """The same 64 bits as a signed number."""
    return (number + 2**63) % 2**64 - 2**63


def hashed(questions):
    """A number for each question: always the same one, though it looks random."""
    if TASK in ("dates", "numbers"):
        questions = solve(questions)  # all ways to ask the same thing share it
    weyl = [0x9E37_79B9_7F4A_7C15 * (2 * i + 1) ** 3 for i in range(questions.shape[1])]
    value = (questions * torch.tensor([signed(number | 1) for number in weyl])).sum(1)
    return ((value ^ (value >> 31)) * signed(0xBF58_476D_1CE4_E5B9)) >> 24


CENSUS = hashed(draw(4096, torch.Generator().manual_seed(20_170_612))).unique()
BORDER = CENSUS[max(1, round(len(CENSUS) / 8)) - 1]


def held_out(questions):
    """Which questions are kept for validation, and never trained on: an eighth of all."""
    if TASK == "numbers":  # those below a hundred are always taught
        return (hashed(questions) <= BORDER) & ((solve(questions) != PAD).sum(1) > 3)
    else:
        return hashed(questions) <= BORDER


def training_questions(size):
    """Random questions, without those that are held out for validation."""
    kept, missing = [], size
    while missing > 0:
        questions = draw(int(1.2 * missing / (1 - 1 / 8)) + 8, batches)
        kept.append(questions[~held_out(questions)][:missing])
        missing -= len(kept[-1])
    return torch.cat(kept)


def read_and_write(questions, answers):
    """What the model reads: the questions, and the answers as far as they are written."""
    if ARCHITECTURE == "encoder" and TASK == "add":
        return (F.pad(questions, (0, LENGTH + 1), value=SLOT),)
    elif ARCHITECTURE == "encoder":
        return (questions,)
    elif ARCHITECTURE == "encoder-decoder":
        return questions, F.pad(answers, (1, 0), value=EQUALS if TASK == "add" else ARROW)
    elif TASK in ("recall", "distance", "add"):
        return (torch.cat((questions, answers), dim=1),)
    else:
        return (torch.cat((F.pad(questions, (0, 1), value=ARROW), answers), dim=1),)


def batch(size):
    """What the model reads, and the right token for each position: IGNORED where none is asked."""
    if TASK == "text" and ARCHITECTURE == "decoder":
        rows = windows(size)
        return rows[:, :-1], rows[:, 1:]  # each position predicts the character after it
    elif TASK == "gaps":
        rows = windows(size)
        chosen = torch.rand(rows.shape, generator=batches) < SHARE
        dice = torch.rand(rows.shape, generator=batches)
        others = torch.randint(1, VOCAB_SIZE - 1, rows.shape, generator=batches)
        hide = chosen & (dice < HIDDEN)
        swap = chosen & ~hide & (dice < HIDDEN + SWAPPED)
        read = torch.where(swap, others, rows).masked_fill(hide, VOCAB_SIZE - 1)
        return read, rows.masked_fill(~chosen, IGNORED)  # the chosen characters alone are asked for
    elif TASK == "text":
        rows, half = windows(size), WIDTH // 2  # the encoder reads one half, the decoder writes
        return rows[:, :half], rows[:, half - 1 : -1], rows[:, half:]
    else:
        questions = training_questions(size)
        answers = solve(questions)
        inputs = read_and_write(questions, answers[:, :-1])
        if PADDED:
            answers = answers.masked_fill(answers == PAD, IGNORED)
        unscored = inputs[-1].shape[1] - answers.shape[1]  # positions before the answer
        return *inputs, F.pad(answers, (unscored, 0), value=IGNORED)


# --- training -------------------------------------------------------------------------------
def learning_rate(step):
    """The learning rate of a step: first a linear warmup, if there is one."""
    if WARMUP and step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    if SCHEDULE == "cosine":  # half a cosine, down to a tenth
        progress = (step - WARMUP) / max(1, PLANNED_STEPS - WARMUP)
        return LR * (0.1 + 0.9 * (1 + math.cos(math.pi * min(1.0, progress))) / 2)
    elif SCHEDULE == "paper":  # equation 3 of Vaswani et al. 2017, with LR as its peak
        return LR * math.sqrt((WARMUP + 1) / (step + 1))
    else:
        return LR


def cross_entropy(logits, targets):
    """Nats per scored token."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def smoothed(logits, targets):
    """The same, with a share of each target spread over the whole vocabulary: only to learn from.

    What is printed stays the plain loss.
    """
    total = F.cross_entropy(
        logits.flatten(0, 1),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=LABEL_SMOOTHING,
    )
    return total / (targets != IGNORED).sum()


model = Transformer()
initialise(model)
model.to(DEVICE)
parameters = list(model.parameters())
# Only matrices decay: not the embeddings, nor what is added or multiplied number by number.
embeddings = set(model.embed.parameters())
matrices = [p for p in parameters if p.ndim == 2 and p not in embeddings]
others = [p for p in parameters if p.ndim != 2 or p in embeddings]
groups = [
    {"params": matrices, "weight_decay": WEIGHT_DECAY},
    {"params": others, "weight_decay": 0.0},
]
if OPTIMIZER == "adamw":
    optimizer = torch.optim.AdamW(groups, lr=LR, fused=True)
else:
    optimizer = torch.optim.SGD(groups, lr=LR, momentum=0.9, fused=True)
if PRECISION == "fp16":
    scaler = torch.amp.GradScaler(DEVICE)  # small gradients would vanish in 16 bits
    skipped = 0  # steps whose update was not made
batches = torch.Generator().manual_seed(SEED)

for step in range(STEPS):
    # Here knobs are turned.
    *inputs, targets = (part.to(DEVICE) for part in batch(BATCH_SIZE))
    optimizer.zero_grad()
    if PRECISION == "fp32":
        logits = model(*inputs)
        loss = cross_entropy(logits, targets)
        if LABEL_SMOOTHING:
            objective = smoothed(logits, targets)
    else:
        with torch.autocast(DEVICE, DTYPE):
            logits = model(*inputs)
            loss = cross_entropy(logits, targets)
            if LABEL_SMOOTHING:
                objective = smoothed(logits, targets)
    if PRECISION == "fp16":
        scaler.scale(objective if LABEL_SMOOTHING else loss).backward()
        scaler.unscale_(optimizer)
    else:
        (objective if LABEL_SMOOTHING else loss).backward()

    grad_norm = math.hypot(*(p.grad.norm().item() for p in parameters))
    if not math.isfinite(loss.item() + grad_norm):
        if PRECISION == "fp16" and math.isfinite(loss.item()) and scaler.get_scale() >= 1:
            scaler.update(scaler.get_scale() / 2)  # too large for 16 bits: a smaller scale
            if WARMUP or SCHEDULE != "constant" or TURNED & {"LR", "WARMUP", "SCHEDULE"}:
                skipped += 1
            print(f"step {step + 1} loss {loss.item()!r}")
            continue  # and no update
        raise SystemExit(f"diverged at step {step + 1}: the loss or a gradient is not finite")
    if CLIP is not None and grad_norm > CLIP:
        for p in parameters:
            p.grad *= CLIP / grad_norm
    if WARMUP or SCHEDULE != "constant" or TURNED & {"LR", "WARMUP", "SCHEDULE"}:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step - skipped if PRECISION == "fp16" else step)
    if "WEIGHT_DECAY" in TURNED:
        optimizer.param_groups[0]["weight_decay"] = WEIGHT_DECAY
    if PRECISION == "fp16":
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    print(f"step {step + 1} loss {loss.item()!r}")


# --- what it has learnt ---------------------------------------------------------------------
def written(ids):
    """Ids as text."""
    return "".join(VOCABULARY[i] for i in ids.tolist())


with torch.no_grad():
    if TASK == "text" and ARCHITECTURE == "decoder":  # write on, from a newline
        tokens = torch.tensor([[VOCABULARY.index("\n") if "\n" in VOCABULARY else 1]])
        for _ in range(200):
            chances = model(tokens[:, -MAX_LEN:].to(DEVICE))[0, -1].float().softmax(-1).cpu()
            token = torch.multinomial(chances, 1, generator=batches)
            tokens = torch.cat((tokens, token[None]), dim=1)
        print(written(tokens[0]))
    elif TASK == "gaps":
        VOCABULARY.append("▢")
        (read, targets) = batch(1)
        answer = model(read.to(DEVICE)).argmax(-1).cpu()
        print(written(read[0]), written(torch.where(targets == IGNORED, read, answer)[0]), sep="\n")
    elif TASK == "text":
        source = windows(1)[:, : WIDTH // 2]
        tokens = source[:, -1:]
        for _ in range(WIDTH - WIDTH // 2):
            logits = model(source.to(DEVICE), tokens.to(DEVICE))
            chances = logits[0, -1].float().softmax(-1).cpu()
            token = torch.multinomial(chances, 1, generator=batches)
            tokens = torch.cat((tokens, token[None]), dim=1)
        print(f"{written(source[0])} … {written(tokens[0, 1:])}")
    else:
        questions = draw(64, batches)
        questions = questions[held_out(questions)][:4]
        right = solve(questions)
        answers = right[:, :0]
        if ARCHITECTURE == "encoder":
            logits = model(read_and_write(questions, answers)[0].to(DEVICE))
            answers = logits[:, -right.shape[1] :].argmax(-1).cpu()
        else:
            for _ in range(right.shape[1]):  # ask for the next token, append it, ask again
                logits = model(*(x.to(DEVICE) for x in read_and_write(questions, answers)))
                answers = torch.cat((answers, logits[:, -1:].argmax(-1).cpu()), dim=1)
        if VARY:
            answers = answers.masked_fill(right == PAD, PAD)
        if TASK in ("dates", "numbers"):  # an answer is over when it ends
            ended = (answers == END).int().cumsum(1) - (answers == END).int()
            answers = answers.masked_fill(ended > 0, PAD)
        for question, answer, truth in zip(questions, answers, right, strict=True):
            result = "right" if torch.equal(answer, truth) else f"wrong: {written(truth)}"
            print(f"{written(question)}  {written(answer)}  {result}")
