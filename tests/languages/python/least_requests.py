"""Prefers endpoints with small values in one column: 1 / (1 + value), and never below a floor. Below 0 is 0."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.plugin import Manifest
from wit_world.imports import columns


class Configured:
    column = 0
    floor = 0.0


class Plugin(exports.Plugin):
    def describe(self):
        return Manifest("least-requests", "1.0.0", "prefers small values of a column, in Python", 1.0, "")

    def configure(self, config):
        settings = json.loads(config)
        Configured.column = columns.resolve(settings.pop("column", "load.requests"))
        Configured.floor = float(settings.pop("floor", 0.0))
        if settings:
            raise Err(f"there is no key {next(iter(settings))!r}; column and floor exist")


class Scorer(exports.Scorer):
    def score(self, request, endpoints):
        floor = Configured.floor
        return [max(floor, 1.0 / (1.0 + max(0.0, value))) for value in endpoints.column(Configured.column, 0.0)]
