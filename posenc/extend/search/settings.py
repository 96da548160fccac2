"""What a person chooses of the search: plain values."""

from dataclasses import dataclass

from posenc.errors import whole

POPULATION, SAMPLES = 64, 10


@dataclass(frozen=True)
class Search:
    """So many generations of so many candidates, each read with so many needles.

    generations 0 measures the first population alone. Raises SettingError for values that no
    search can have.
    """

    generations: int
    population: int = POPULATION
    samples: int = SAMPLES

    def __post_init__(self) -> None:
        whole("extend --search", 0, generations=self.generations)
        whole("extend --search-population", 1, population=self.population)
        whole("extend --search-samples", 1, samples=self.samples)

    def words(self) -> list[str]:
        """The options of the command that say this."""
        words = ["--search", str(self.generations), "--search-population", str(self.population)]
        return [*words, "--search-samples", str(self.samples)]
