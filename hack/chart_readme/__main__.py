"""Writes the values into the README of the chart."""

from hack.chart_readme import CHART, renewed


def main() -> None:
    """Writes it, if it differs."""
    readme = CHART / "README.md"
    before = readme.read_text(encoding="utf-8")
    after = renewed(before, (CHART / "values.yaml").read_text(encoding="utf-8"))
    if before != after:
        readme.write_text(after, encoding="utf-8")


main()
