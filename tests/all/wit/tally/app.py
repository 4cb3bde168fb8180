"""Counts words and adds numbers, for a world of its own."""

from componentize_py_types import Err
from wit_world import WitWorld as World
from wit_world import exports
from wit_world.exports.words import Word


class Words(exports.Words):
    def count(self, text):
        if not text:
            raise Err("there are no words")
        counts = {}
        for word in text.split(" "):
            counts[word] = counts.get(word, 0) + 1
        return [Word(text, count) for text, count in counts.items()]


class WitWorld(World):
    def sum(self, numbers):
        return sum(numbers)
