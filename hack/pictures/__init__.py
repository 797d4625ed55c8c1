"""The screenshots in docs/pictures: `python -m hack.pictures`."""
