"""Take it home: the numbers of a run as CSV, its configuration as JSON, the run as one Python file.

The Python file is put together from the sources of `core` as they are now. From the few lines
that start the run, every top-level definition that they need is looked up, and what those need;
the rest stays out. So does each entry of a registry (`SCALES`, `POSITIONS` …) whose name the run
never uses. Shapes become comments, and where two modules use one name, the earlier one's is
prefixed with its module.
"""

import ast
import builtins
import inspect
import itertools
import json
import platform
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from importlib import import_module
from pkgutil import ModuleInfo  # noqa: F401
from typing import Any, NamedTuple

import pandas as pd
import torch

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS, Task, task_from_dict
from core.tasks.sources import decode_upload
from core.train import Change, check_fits
from playground.spec import Spec
from playground.view import View

FORMAT = 1
MAX_CONFIG_BYTES = 100_000
