"""Tasks with a question and one right answer, and their form for each architecture."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.config import ModelConfig
from core.masks import reachable
from core.tasks.base import VALIDATION_SIZE, Batch, Chance, Prompt, Task, fixed_generator
from core.tasks.held_out import SHARE, HeldOut, sieve
from core.tasks.vocabulary import NEVER
from core.tokens import IGNORED, PAD

SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz"
SEPARATOR = "→"

_CENSUS = 4096  # questions drawn once, to see which there are


@dataclass(frozen=True, kw_only=True)
class QuestionTask(Task):
    """A question, drawn at random, whose answer a rule decides.

    Training never meets one of the validation set: what is scored there was not learnt by heart.
    """

    # --- what a subclass says -------------------------------------------------------------

    @property
    @abstractmethod
    def answer_len(self) -> int:
        """Tokens in the longest answer."""

    @abstractmethod
    def draw(self, size: int, generator: torch.Generator) -> Int[Tensor, "size question"]:
        """Random questions, from training and validation alike; shorter ones end in PAD."""

    @abstractmethod
    def solve(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch answer"]:
        """The right answers; PAD where nothing is asked."""

    @abstractmethod
    def parse(self, text: str) -> Int[Tensor, "1 question"]:
        """A visitor's own question.

        Raises:
            ValueError: says the rule that `text` breaks.
        """

    @abstractmethod
    def blind(self) -> float:
        """Exact loss of the best guess per position that ignores the question (all questions,
        before some are held out), in nats per scored token."""

    def surprise(
        self,
        architecture: str,
        questions: Int[Tensor, "batch question"],
        known: Bool[Tensor, "answer question"],
    ) -> Float[Tensor, "#batch answer"] | None:
        """Exact -ln p of each token of the answer, where only part of the question is known.

        Args:
            known: for each token of the answer, which tokens of the question can reach it. A
                decoder may also read the answer so far. Never all of them.

        Returns:
            None where nobody has worked it out.
        """
        return None

    def meaning(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch _"]:
        """What is held out: all ways to ask the same thing share it."""
        return questions

    @property
    def start(self) -> int:
        """The token after which the answer begins; an encoder-decoder's decoder starts with it."""
        return self.vocabulary.index(SEPARATOR)

    def split(self, text: str) -> list[str]:
        """A token is a character, and spaces between them mean nothing."""
        return list("".join(text.split()))

    def decoder_question(
        self, questions: Int[Tensor, "batch question"]
    ) -> Int[Tensor, "batch prompt"]:
        """All that stands before the answer in one sequence: the question and a separator."""
        return torch.cat((questions, self._starts(len(questions))), dim=1)

    def encoder_form(
        self, questions: Int[Tensor, "batch question"]
    ) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]:
        """What an encoder reads, and the label of each position."""
        return questions, _scored(self.solve(questions))

    # --- what follows from it -------------------------------------------------------------

    def form(self, architecture: str, questions: Int[Tensor, "batch question"]) -> Batch:
        """The questions and their answers as one architecture meets them.

        - decoder: question and answer in one sequence; each position predicts the token one
          place further on, and only the answer is scored (not the dots).
        - encoder: a label per position.
        - encoder-decoder: the encoder reads the question; the decoder predicts as above.

        The task reverse, asked for 314:

            decoder          reads     3 1 4 → 4 1
                             predicts  · · · 4 1 3
            encoder          reads     3 1 4
                             predicts  4 1 3
            encoder-decoder  reads     3 1 4 and → 4 1
                             predicts            4 1 3
        """
        self.check_architecture(architecture)
        if architecture == "encoder":
            tokens, labels = self.encoder_form(questions)
            return Batch((tokens,), labels)
        answers = self.solve(questions)
        if architecture == "encoder-decoder":
            target_in = torch.cat((self._starts(len(questions)), answers[:, :-1]), dim=1)
            return Batch((questions, target_in), _scored(answers))
        tokens = torch.cat((self.decoder_question(questions), answers[:, :-1]), dim=1)
        targets = torch.full_like(tokens, IGNORED)
        targets[:, -answers.shape[1] :] = _scored(answers)
        return Batch((tokens,), targets)

    def max_len(self, architecture: str) -> int:
        return max(tensor.shape[1] for tensor in self.probe(architecture).inputs)

    def batch(self, architecture: str, size: int, generator: torch.Generator) -> Batch:
        return self.form(architecture, self._questions(size, generator, held_out=False))

    def validation(self, architecture: str, size: int = VALIDATION_SIZE) -> Batch:
        return self.form(architecture, self._questions(size, fixed_generator(), held_out=True))

    def probe(self, architecture: str, text: str | None = None) -> Batch:
        return self.form(architecture, self._one_question(text))

    def example(self, architecture: str) -> str:
        return self.join(self._one_question(None)[0].tolist())

    def prompt(self, architecture: str, text: str | None = None) -> Prompt:
        self.check_architecture(architecture)
        question = self._one_question(text)
        if architecture == "encoder":
            return Prompt((self.encoder_form(question)[0],), 0)
        # Without an end the question itself says how long its answer is.
        n_new = self.answer_len if self.end != NEVER else int((self.solve(question) != PAD).sum())
        one, two = (self.decoder_question(question),), (question, self._starts(1))
        return Prompt(two if architecture == "encoder-decoder" else one, n_new, self.end)

    def chance(self, architecture: str) -> Chance:
        self.check_architecture(architecture)
        return Chance(self._uniform(), self.blind())

    def floor(self, model: ModelConfig) -> float | None:
        """0 where the whole question can be read, for it decides the answer."""
        self.check_architecture(model.form)
        # In every form the question stands first, and the last positions are scored.
        reach = reachable(model, self.max_len(model.form))
        known = reach[-self.answer_len :, : self.draw(1, fixed_generator()).shape[1]]
        if model.form == "encoder-decoder" or known.all():
            return 0.0
        questions = self._questions(VALIDATION_SIZE, fixed_generator(), held_out=True)
        surprise = self.surprise(model.form, questions, known)
        if surprise is None:
            return None
        asked = self.solve(questions) != PAD
        return float((surprise * asked).sum() / asked.sum())

    def is_held_out(self, questions: Int[Tensor, "batch question"]) -> Bool[Tensor, " batch"]:
        """Which questions belong to validation."""
        return _held_out(self)(self.meaning(questions))

    def _questions(self, size: int, generator: torch.Generator, held_out: bool) -> Tensor:
        share = SHARE if held_out else 1 - SHARE
        draw = partial(self.draw, generator=generator)
        return sieve(draw, lambda rows: self.is_held_out(rows) == held_out, size, share)

    def _one_question(self, text: str | None) -> Tensor:
        text = (text or "").strip()
        return self.parse(text) if text else self._questions(1, fixed_generator(), held_out=True)

    def _starts(self, size: int) -> Tensor:
        return torch.full((size, 1), self.start)


@lru_cache(maxsize=64)  # equal tasks hold out the same questions
def _held_out(task: QuestionTask) -> HeldOut:
    return HeldOut(task.meaning(task.draw(_CENSUS, fixed_generator())))


def _scored(answers: Tensor) -> Tensor:
    return answers.masked_fill(answers == PAD, IGNORED)
