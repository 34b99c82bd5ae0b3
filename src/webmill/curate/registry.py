"""Every kind of step that a recipe can use."""

from __future__ import annotations

from typing import Union, get_args

from webmill.curate.dedup.steps import (
    ExactDuplicates,
    NearDuplicates,
    RepeatedLines,
    RepeatedParagraphs,
    SiteBoilerplate,
    UrlDuplicates,
)
from webmill.curate.filters.basic import ColumnFilter, LanguageStep, LengthFilter, ScriptFilter
from webmill.curate.filters.languages import LanguageOpinion
from webmill.curate.filters.lists import Decontamination, ListedUrls, ListedWords
from webmill.curate.filters.models import FastTextScore, Perplexity, PythonFilter, TokenCount
from webmill.curate.filters.pii import PersonalData
from webmill.curate.filters.steps import C4Quality, FineWebQuality, GopherQuality, GopherRepetition, LineFilter
from webmill.curate.filters.usage import UsageFilter

AnyStep = Union[  # noqa: UP007 - a value at run time, too
    C4Quality,
    ColumnFilter,
    Decontamination,
    ExactDuplicates,
    FastTextScore,
    FineWebQuality,
    GopherQuality,
    GopherRepetition,
    LanguageOpinion,
    LanguageStep,
    LengthFilter,
    LineFilter,
    ListedUrls,
    ListedWords,
    NearDuplicates,
    Perplexity,
    PersonalData,
    PythonFilter,
    RepeatedLines,
    RepeatedParagraphs,
    ScriptFilter,
    SiteBoilerplate,
    TokenCount,
    UrlDuplicates,
    UsageFilter,
]
STEPS = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyStep)}
